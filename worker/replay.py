"""The replay step: a running bulk replay makes its next batch of deliveries due again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import Connection

from fencepost.errors import FencepostError
from fencepost.records import Replay
from fencepost.store import requeue
from fencepost.store.session import limit_statements
from worker.link import OUTLIVED, Link

log = logging.getLogger(__name__)

IDLE_SECONDS = 1.0
"""A start is noticed within this; a pause or a cancel, by the next batch."""

STATEMENT_LIMIT = timedelta(minutes=2)
"""Of a batch: a scope that few rows of many match is read from one end to the other."""


class ReplayStep:
    """Requeue one batch of one replay, in turn.

    Several workers run this step: the lock on the replay's row gives each batch to one of
    them, and the pace is kept in the row.

    Args:
        link: its connection.
        on_new: called when there are deliveries to claim.
    """

    def __init__(self, link: Link, *, on_new: Callable[[], None]) -> None:
        self._link = link
        self._on_new = on_new

    def __call__(self) -> float:
        """Make one batch; say when the next is due."""
        with self._link.use() as conn:
            wait = requeue.read_wait(conn)
            if wait is None or wait > 0:
                return IDLE_SECONDS if wait is None else min(wait, IDLE_SECONDS)
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
        return 0.0

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
