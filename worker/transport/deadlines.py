"""One thread that ends requests whose time is up, whatever they are waiting for."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from fencepost.model import Lease, Outgoing
from worker.transport.base import Done
from worker.transport.calls import Call, Cut

log = logging.getLogger(__name__)


class CutShortError(Exception):
    """The request was ended by us before it came to its next phase."""


class Cutoff:
    """A connection's second descriptor, by which any thread ends what it is used for.

    Wrapping a socket in TLS takes the first one away, and shutting down a number that was closed
    meanwhile could hit a stranger's connection.

    Raises:
        OSError: no descriptor is left.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._copy = socket.fromfd(sock.fileno(), sock.family, sock.type)
        self._lock = threading.Lock()
        self._user: SocketCall | None = None

    def serve(self, user: SocketCall | None) -> None:
        """Say for whom it is used from now on; who used it before has no say any more."""
        with self._lock:
            self._user = user

    def cut(self, user: SocketCall) -> None:
        """Make whoever waits for it return at once, if it is still used for that call."""
        with self._lock:
            if self._user is user:
                with suppress(OSError):  # it is not connected, or not any more
                    self._copy.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            self._copy.close()


class SocketCall(Call):
    """A call that one thread performs and any other may cut short, by its connection."""

    def __init__(self, outgoing: Outgoing, done: Done) -> None:
        super().__init__(outgoing, done)
        self._connects_by = float("inf")
        self._cutoff: Cutoff | None = None

    def check(self) -> None:
        """Raise CutShortError when it has been cut short: nothing more may leave."""
        if self.cut is not None:
            raise CutShortError

    def connect_within(self, seconds: float) -> None:
        """Bound connecting and the TLS handshake together, until ``connected``."""
        self._connects_by = time.monotonic() + seconds

    def connected(self) -> None:
        """Leave the whole rest of the deadline to the exchange."""
        self._connects_by = float("inf")

    @property
    def due(self) -> float:
        """When it has to be over, or past connecting; never, once it is cut short."""
        return float("inf") if self.cut else min(self.ends_at, self._connects_by)

    def left(self) -> float:
        """Give the seconds until it is due, for a socket's timeout: never zero or less."""
        self.check()
        return max(0.001, self.due - time.monotonic())

    def hold(self, cutoff: Cutoff) -> None:
        """Use a connection, which other threads can cut from now on.

        Raises:
            CutShortError: it has been cut short already.
        """
        self._cutoff = cutoff
        cutoff.serve(self)
        self.check()

    def let_go(self) -> None:
        """Be done with the connection: from here on nobody cuts it for this call's sake."""
        cutoff, self._cutoff = self._cutoff, None
        if cutoff is not None:
            cutoff.serve(None)

    def cut_short(self, why: Cut) -> None:
        """End it, from any thread: a blocked read or write returns at once."""
        self.cut = self.cut or why
        # First the reason, then the connection; ``hold`` looks in the opposite order.
        cutoff = self._cutoff
        if cutoff is not None:
            cutoff.cut(self)

    def cut_if_due(self, now: float) -> None:
        """Cut it short when its time is up."""
        if now >= self.ends_at:
            self.cut_short(Cut.DEADLINE)
        elif now >= self._connects_by:
            self.cut_short(Cut.CONNECT)


class Watch:
    """All calls of a transport, and the thread that ends those whose time is up.

    Args:
        tick: called every now and then, to clean up.
        every: the most seconds between two calls of ``tick``.
    """

    def __init__(self, tick: Callable[[], None], *, every: float = 1.0) -> None:
        self._tick = tick
        self._every = every
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._emptied = threading.Condition(self._lock)
        self._calls: dict[Lease, SocketCall] = {}
        self._wakes_at = 0.0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
        self._thread.start()

    def begin(self, call: SocketCall) -> None:
        """Take a call in: it can be cut short from now on."""
        with self._lock:
            self._calls[call.outgoing.lease] = call

    def expect(self, call: SocketCall) -> None:
        """Be there when a call is due that has just been given less time."""
        with self._lock:
            if call.due < self._wakes_at:
                self._changed.notify()

    def end(self, call: SocketCall) -> None:
        """Let a call go: its reply is made."""
        call.let_go()
        with self._lock:
            self._calls.pop(call.outgoing.lease, None)
            if not self._calls:
                self._emptied.notify_all()

    def cut(self, lease: Lease, why: Cut) -> None:
        """Cut one call short, if it is still there."""
        with self._lock:
            call = self._calls.get(lease)
        if call is not None:
            call.cut_short(why)

    def cut_all(self, why: Cut) -> None:
        """Cut short whatever is there."""
        with self._lock:
            calls = list(self._calls.values())
        for call in calls:
            call.cut_short(why)

    def wait_empty(self, seconds: float | None = None) -> bool:
        """Wait until no call is left; say whether that came true in time."""
        with self._lock:
            return self._emptied.wait_for(lambda: not self._calls, seconds)

    def close(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            with self._lock:
                now = time.monotonic()
                dues = (call.due for call in self._calls.values())
                self._wakes_at = min(now + self._every, *dues, float("inf"))
                if not self._is_closed:
                    self._changed.wait(max(0.0, self._wakes_at - now))
                calls = list(self._calls.values())
            now = time.monotonic()
            for call in calls:
                call.cut_if_due(now)
            try:
                self._tick()
            except Exception:
                log.exception("transport.tick_failed")
