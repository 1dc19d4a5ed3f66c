"""The fan-out step: committed events become deliveries."""

from __future__ import annotations

import logging
from collections.abc import Callable

import psycopg

from fencepost.keyring import Keyring
from fencepost.payloads import fingerprint
from fencepost.store import doorbell, outbox
from fencepost.store.outbox import OutboxRow, Sealed
from worker import hooks
from worker.doze import IDLE_SECONDS, Doze
from worker.link import Link

log = logging.getLogger(__name__)

LARGEST_BATCH = 200
DELIVERIES_AT_ONCE = 20_000
BREATH_SECONDS = 0.02
"""Between looks while there is something to do: what comes meanwhile is taken together."""


class FanOut:
    """Seal what came in clear, and meet every matching subscription.

    Args:
        link: its connection.
        keyring: seals the payloads.
        worker_id: for the trail.
        on_new: called when there are new deliveries to claim.
        doze: says how long to look away when there is nothing.
    """

    def __init__(
        self,
        link: Link,
        *,
        keyring: Keyring,
        worker_id: str,
        on_new: Callable[[], None],
        doze: Doze,
    ) -> None:
        self._link = link
        self._keyring = keyring
        self._worker_id = worker_id
        self._on_new = on_new
        self._doze = doze
        self._opened = 0

    def __call__(self) -> float:
        """Fan one batch out; again at once when it was full."""
        with self._link.use() as conn:
            if self._link.opened != self._opened:
                self._doze.stir()  # a server that crashed has lost the mark
                self._opened = self._link.opened
            seen = doorbell.look(conn)
            if not seen.is_waiting:
                return self._doze.rest(conn, seen)
            try:
                with conn.transaction():
                    if not outbox.take_fan_out(conn):
                        return IDLE_SECONDS  # another does it, and looks after the rest
                    self._doze.rouse(conn, seen)
                    found = outbox.lock_outbox(conn, LARGEST_BATCH)
                    rows = outbox.within(conn, found, most=DELIVERIES_AT_ONCE)
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
        is_all = len(rows) == len(found) < LARGEST_BATCH
        return BREATH_SECONDS if is_all else 0

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
