"""What every transport promises, however it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from fencepost.model import Lease, Outgoing, Reply

Done = Callable[[Outgoing, Reply], None]

MAX_BODY_READ: Final = 64 * 1024
MAX_BODY_KEPT: Final = 4 * 1024


class Transport(Protocol):
    """Sends requests, one for each ``Outgoing``, never a second one.

    The address check, the total deadline and the limits on what is read hold whatever a
    receiver does; ``tests/transport`` runs the same trials against every transport.
    """

    @property
    def capacity(self) -> int:
        """How many requests can be in flight at once; more than that wait."""

    def send(self, outgoing: Outgoing, done: Done) -> None:
        """Send one request; never blocks and never raises.

        Args:
            outgoing: its ATTEMPTED row is committed.
            done: called exactly once, from a thread of the transport, with the status line that
                came back or with the class of failure; from ``send`` itself only when no thread
                can be started at all. It must not block: others' answers may wait behind it.
        """

    def abort(self, lease: Lease) -> None:
        """Cut a request off whose lease was lost.

        Its ``done`` is called with RESET, "lease lost", unless its status line is there
        already. Nothing happens when it has ended, or was never sent.
        """

    def close(self, *, wait: float) -> None:
        """Let what is in flight end, for ``wait`` seconds; then cut it off.

        Every ``done`` has been called when it returns. What is sent later ends at once as
        LOCAL_ERROR.
        """
