"""The fan-out step: committed events become deliveries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import Connection

from fencepost.keyring import Keyring
from fencepost.payloads import fingerprint
from fencepost.store import doorbell, outbox
from fencepost.store.outbox import OutboxRow, Sealed
from worker import hooks
from worker.link import Link

log = logging.getLogger(__name__)

LARGEST_BATCH = 200
DELIVERIES_AT_ONCE = 20_000
IDLE_SECONDS = 0.1
"""Between looks into an empty outbox."""

QUIET_SECONDS = 0.2
"""Without an event for so long, it sleeps until the doorbell rings: under load it never does."""

SLEEPING_SECONDS = 1.0
"""Between looks while it sleeps: what the bell misses is found by then."""


class FanOut:
    """Seal what came in clear, and meet every matching subscription.

    Args:
        link: its connection.
        keyring: seals the payloads.
        worker_id: for the trail.
        on_new: called when there are new deliveries to claim.
        bell_works: whether a producer's ring would be heard.
        clock: seconds that only rise.
    """

    def __init__(
        self,
        link: Link,
        *,
        keyring: Keyring,
        worker_id: str,
        on_new: Callable[[], None],
        bell_works: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._link = link
        self._keyring = keyring
        self._worker_id = worker_id
        self._on_new = on_new
        self._bell_works = bell_works
        self._clock = clock
        self._busy_at = clock()
        self._is_asleep = False

    def __call__(self) -> float:
        """Fan one batch out; again at once when it was full."""
        with self._link.use() as conn:
            if not outbox.is_waiting(conn):
                return self._rest(conn)
            self._rouse(conn)
            try:
                with conn.transaction():
                    if not outbox.take_fan_out(conn):
                        return IDLE_SECONDS
                    batch = max(
                        1,
                        min(LARGEST_BATCH, DELIVERIES_AT_ONCE // (outbox.count_targets(conn) or 1)),
                    )
                    rows = outbox.lock_outbox(conn, batch)
                    made = outbox.fan_out(
                        conn, [self._seal(row) for row in rows], worker_id=self._worker_id
                    )
            except psycopg.errors.CheckViolation:
                # A day began without its partition, or the clock jumped.
                if not outbox.ensure_partitions(conn):
                    raise
                return 0
        if made:
            self._on_new()
        if rows:
            log.debug("outbox.fanned_out events=%d deliveries=%d", len(rows), made)
            hooks.reach("fanned_out", rows)
        return 0 if len(rows) == batch else IDLE_SECONDS

    def _rest(self, conn: Connection[Any]) -> float:
        """Say when to look again; after a quiet second, ask producers to ring instead."""
        if not self._bell_works() or self._clock() - self._busy_at < QUIET_SECONDS:
            return IDLE_SECONDS
        # Said again at each look: who is awake says otherwise, and may be gone by now.
        doorbell.fall_asleep(conn)
        if self._is_asleep:
            return SLEEPING_SECONDS
        self._is_asleep = True
        return 0  # one more look, for who committed before it could see the wish

    def _rouse(self, conn: Connection[Any]) -> None:
        self._busy_at = self._clock()
        if self._is_asleep:
            self._is_asleep = False
            doorbell.wake_up(conn)

    def _seal(self, row: OutboxRow) -> tuple[OutboxRow, Sealed | None]:
        if row.payload is None:
            return row, None
        key_id, sealed = self._keyring.seal_payload(
            row.payload,
            event_id=row.event_id,
            content_type=row.content_type,
            event_type=row.event_type,
        )
        mac = None
        if row.is_keyed:
            mac = fingerprint(
                self._keyring,
                event_type=row.event_type,
                content_type=row.content_type,
                payload=row.payload,
            )
        return row, Sealed(key_id, sealed, mac)
