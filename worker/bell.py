"""The bell step: listen for the doorbell, and know whether it can be heard at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from psycopg import Connection

from fencepost.store import doorbell
from fencepost.store.session import is_lent
from worker.link import Link

log = logging.getLogger(__name__)

LISTEN_SECONDS = 1.0
PROOF_SECONDS = 30.0
"""How long one heard ring proves that the bell works."""


class Bell:
    """Wakes the fan-out when a producer rings.

    It rings itself now and then, through another connection. While it hears that, polling
    may be slow. Behind a pooler it does not even listen: the pooler's next client would hear
    it instead; polling stays fast.

    Args:
        link: its connection, which listens.
        ringer: another connection, which rings.
        on_ring: called when it rings, and when it may have rung unheard.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        link: Link,
        ringer: Link,
        *,
        on_ring: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._link = link
        self._ringer = ringer
        self._on_ring = on_ring
        self._clock = clock
        self._begun = 0
        self._listens = False
        self._rang_at = self._heard_at = float("-inf")

    @property
    def works(self) -> bool:
        """Whether it was heard lately."""
        return self._clock() - self._heard_at < 2 * PROOF_SECONDS

    def __call__(self) -> float:
        """Listen for a while."""
        try:
            with self._link.use() as conn:
                if self._link.opened != self._begun:
                    self._begin(conn)
                    self._begun = self._link.opened
                if not self._listens:
                    return PROOF_SECONDS
                self._prove()
                for notice in conn.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                    if notice.payload:
                        self._heard_at = self._clock()
                    else:
                        self._on_ring()
        except Exception:
            self._heard_at = float("-inf")
            self._on_ring()  # who sleeps now must poll
            raise
        return 0

    def _begin(self, conn: Connection[Any]) -> None:
        self._rang_at = float("-inf")
        self._listens = not is_lent(conn)
        if not self._listens:
            log.info("doorbell.unheard reason=pooler")
            return
        doorbell.listen(conn)
        self._on_ring()  # what was committed before is found by looking

    def _prove(self) -> None:
        now = self._clock()
        if now - self._rang_at >= PROOF_SECONDS:
            with self._ringer.use() as other:
                doorbell.ring(other)
            self._rang_at = now
