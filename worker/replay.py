"""The replay step: a running bulk replay makes its next batch of deliveries due again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection

from fencepost.errors import FencepostError
from fencepost.records import Replay
from fencepost.store import requeue
from fencepost.store.replay_outcomes import fold_outcomes, pause_failing
from fencepost.store.session import limit_statements
from worker.link import OUTLIVED, Link

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""A start is noticed within this; a pause or a cancel, by the next batch."""

FOLD_SECONDS = 0.5
"""Between two looks at what came of the requeued ones."""

REST = 0.5
"""After a batch without a rate, of the time that it took: what is live has its turn."""

STATEMENT_LIMIT = timedelta(minutes=2)
"""Of a batch."""


class ReplayStep:
    """Requeue one batch of one replay, in turn.

    Several workers run this step: the lock on the replay's row gives each batch to one of
    them, and the pace is kept in the rows of its parts.

    Args:
        link: its connection.
        worker_id: unique to this process.
        on_new: called when there are deliveries to claim.
        clock: seconds that only rise.
    """

    def __init__(
        self, link: Link, *, worker_id: str, on_new: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._link = link
        self._worker_id = worker_id
        self._on_new = on_new
        self._clock = clock
        self._folded_at = -math.inf

    def __call__(self) -> float:
        """Make one batch; say when the next is due."""
        with self._link.use() as conn:
            work = requeue.read_work(conn)
            if work.has_outcomes and self._clock() - self._folded_at >= FOLD_SECONDS:
                self._fold(conn)
            if work.due_in is None or work.due_in > 0:
                return IDLE_SECONDS if work.due_in is None else min(work.due_in, IDLE_SECONDS)
            began = self._clock()
            with conn.transaction():
                limit_statements(conn, STATEMENT_LIMIT)
                before = requeue.take_due(conn)
                if before is None:  # another worker has this batch in hand
                    return IDLE_SECONDS
                after = self._requeue(conn, before)
        if after.requeued > before.requeued:
            self._on_new()
        if after.state == "DONE":
            log.info(
                "replay.done id=%s requeued=%d skipped=%d", after.id, after.requeued, after.skipped
            )
        return REST * (self._clock() - began) if after.rate_per_second is None else 0.0

    def _fold(self, conn: Connection[Any]) -> None:
        """Count what came of the requeued ones; whose receivers are not mended pauses."""
        self._folded_at = self._clock()
        with conn.transaction():
            fold_outcomes(conn)
            paused = pause_failing(conn, worker_id=self._worker_id)
        for id_, reason in paused:
            log.warning("replay.paused id=%s reason=%s", id_, reason)

    def _requeue(self, conn: Connection[Any], before: Replay) -> Replay:
        """Make the batch; a replay that cannot go on ends as FAILED, and is in nobody's way."""
        try:
            with conn.transaction():
                return requeue.requeue_batch(conn, before, requeue.batch_size(before))
        except (psycopg.OperationalError, *OUTLIVED):  # away, busy or slow: the next turn tries
            raise
        except (FencepostError, psycopg.Error) as error:
            failure = " ".join(str(error).split())[:300]
            log.exception("replay.failed id=%s", before.id)
            requeue.fail_replay(conn, before.id, failure)
            return replace(before, state="FAILED", failure=failure)
