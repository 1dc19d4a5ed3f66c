"""The upkeep step: partitions ahead, workers long gone."""

from __future__ import annotations

import logging

from fencepost.store import outbox, registry
from worker.link import Link

log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0


class Upkeep:
    """What some worker must do now and then; each part is harmless when two do it at once.

    Args:
        link: its connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def __call__(self) -> float:
        """Do all of it once."""
        with self._link.use() as conn:
            if made := outbox.ensure_partitions(conn):
                log.info("partitions.made count=%d", made)
            registry.forget_workers(conn)
        return INTERVAL_SECONDS
