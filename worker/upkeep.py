"""The upkeep step: partitions ahead, subscriptions that fail for days, workers long gone."""

from __future__ import annotations

import logging

from fencepost.store import outbox, registry, settlements
from worker.link import Link

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0


class Upkeep:
    """What some worker must do now and then; each part is harmless when two do it at once.

    Args:
        link: its connection.
        worker_id: for the operator log.
    """

    def __init__(self, link: Link, *, worker_id: str) -> None:
        self._link = link
        self._worker_id = worker_id

    def __call__(self) -> float:
        """Do all of it once."""
        with self._link.use() as conn:
            if made := outbox.ensure_partitions(conn):
                log.info("partitions.made count=%d", made)
            for subscription_id in settlements.pause_failing(conn, worker_id=self._worker_id):
                log.warning("subscription.paused reason=failing subscription=%s", subscription_id)
            registry.forget_workers(conn)
        return INTERVAL_SECONDS
