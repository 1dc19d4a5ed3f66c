"""The replay step: running bulk replays make their deliveries due again, batch by batch."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fencepost.store import requeue
from worker.link import Link

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0


class Replay:
    """Make the next batch of whichever replay is due; the row lock lets one worker make it.

    Args:
        link: its connection.
        on_new: called when deliveries became due.
    """

    def __init__(self, link: Link, *, on_new: Callable[[], None]) -> None:
        self._link = link
        self._on_new = on_new

    def __call__(self) -> float:
        """Requeue one batch; again at once while another is due."""
        with self._link.use() as conn:
            wait = requeue.read_wait(conn)
            if wait is None or wait > 0:
                return IDLE_SECONDS if wait is None else min(wait, IDLE_SECONDS)
            with conn.transaction():
                due = requeue.take_due(conn)
                if due is None:  # another worker was faster
                    return IDLE_SECONDS
                after = requeue.requeue_batch(conn, due, requeue.batch_size(due))
        self._on_new()
        if after.state == "DONE":
            log.info("replay.done replay=%s requeued=%d", after.id, after.requeued)
        return 0
