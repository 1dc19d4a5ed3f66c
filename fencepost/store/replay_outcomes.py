"""What became of the deliveries that bulk replays requeued: counted, and acted on.

A trigger notes each outcome in a table of its own; here they are added to their replays.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import tuple_row

from fencepost.store.queries import load

_SQL = load("requeue.sql")

RECENT: Final = 50
"""Attempts that say whether it makes sense to go on."""

MOST_FAILED: Final = 40
"""Of those; with more a replay pauses itself."""

SHOWN: Final = 5
"""Failures that a replay names."""


def fold_outcomes(conn: Connection[Any]) -> None:
    """Add up what came of requeued deliveries since the last time.

    Args:
        conn: the caller commits.
    """
    conn.execute(_SQL.fold_outcomes, {"recent": RECENT, "shown": SHOWN})


def pause_failing(conn: Connection[Any], *, worker_id: str) -> list[tuple[UUID, str]]:
    """Pause running replays most of whose last attempts failed; give ids and reasons.

    Args:
        conn: the caller commits.
        worker_id: who says so in the log of actions.
    """
    params = {"recent": RECENT, "most": MOST_FAILED, "worker_id": worker_id}
    with conn.cursor(row_factory=tuple_row) as cur:
        rows = cur.execute(_SQL.pause_failing, params).fetchall()
    return [(UUID(id_), reason) for id_, reason in rows]
