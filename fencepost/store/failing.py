"""Which subscriptions fail now: the rule that pages and their definitions share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import scalar_row

from fencepost.store.queries import load

_SQL = load("failing.sql")

LEAST_ATTEMPTS: Final = 10
"""With fewer in the window of first tries, their share says nothing."""
LEAST_SHARE: Final = 0.5
FIRST_TRY_WINDOW: Final = timedelta(minutes=5)
DEATH_WINDOW: Final = timedelta(minutes=15)


def read_failing(conn: Connection[Any]) -> Sequence[UUID]:
    """Find the subscriptions that fail; whoever lost most to the DLQ first.

    A subscription fails when something of it entered the DLQ within ``DEATH_WINDOW``, or when of
    the first attempts that ended within ``FIRST_TRY_WINDOW`` less than ``LEAST_SHARE`` delivered,
    given that ``LEAST_ATTEMPTS`` ended at all. The windows begin with a whole minute.
    """
    params = {
        "first_try_window": FIRST_TRY_WINDOW,
        "death_window": DEATH_WINDOW,
        "least_attempts": LEAST_ATTEMPTS,
        "least_share": LEAST_SHARE,
    }
    with conn.cursor(row_factory=scalar_row) as cur:
        return cur.execute(_SQL.read_failing, params).fetchall()
