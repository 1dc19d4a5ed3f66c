"""The discard step: a running bulk discard gives its next batch of deliveries up."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import psycopg
from psycopg import Connection

from fencepost.errors import FencepostError
from fencepost.records import Discard
from fencepost.store import giving_up
from fencepost.store.session import limit_statements
from worker.link import OUTLIVED, Link

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 1.0
"""A start is noticed within this; a cancel, by the next batch."""

STATEMENT_LIMIT: Final = timedelta(minutes=2)
"""Of a batch: a scope that few rows of many match is read from one end to the other."""


class DiscardStep:
    """Make one batch of one discard.

    Several workers run this step: the lock on the discard's row gives each batch to one of them.

    Args:
        link: its connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def __call__(self) -> float:
        """Make one batch; at once again while there is more to do."""
        with self._link.use() as conn:
            if not giving_up.is_any_running(conn):
                return IDLE_SECONDS
            with conn.transaction():
                limit_statements(conn, STATEMENT_LIMIT)
                before = giving_up.take_running(conn)
                if before is None:  # another worker has this batch in hand
                    return IDLE_SECONDS
                after = self._discard(conn, before)
        if after.state == "DONE":
            log.info(
                "discard.done id=%s discarded=%d skipped=%d",
                after.id, after.discarded, after.skipped,
            )  # fmt: skip
        return 0.0

    def _discard(self, conn: Connection[Any], before: Discard) -> Discard:
        """Make the batch; a discard that cannot go on ends as FAILED, and is in nobody's way."""
        try:
            with conn.transaction():
                return giving_up.discard_batch(conn, before)
        except (psycopg.OperationalError, *OUTLIVED):  # away, busy or slow: the next turn tries
            raise
        except (FencepostError, psycopg.Error) as error:
            failure = " ".join(str(error).split())[:300]
            log.exception("discard.failed id=%s", before.id)
            giving_up.fail_discard(conn, before.id, failure)
            return replace(before, state="FAILED", failure=failure)
