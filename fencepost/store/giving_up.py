"""The work of a bulk discard: its deliveries are given up, batch by batch."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, scalar_row

from fencepost.errors import ConflictError
from fencepost.filters import DeliveryFilter
from fencepost.records import Discard
from fencepost.store.conditions import where
from fencepost.store.operators import given_up
from fencepost.store.queries import load

_SQL = load("discards.sql")
_MOVES = load("operators.sql")

BATCH: Final = 500


def is_any_running(conn: Connection[Any]) -> bool:
    """Tell whether there is a batch to make."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return bool(cur.execute(_SQL.is_any_running).fetchone())


def take_running(conn: Connection[Any]) -> Discard | None:
    """Lock a running discard, the oldest that nobody has in hand; None when there is none.

    Args:
        conn: inside a transaction, which holds the lock: nobody else makes this batch, and a
            cancel waits for it.
    """
    query = sql.SQL(_SQL.take_running).format(columns=sql.SQL(_SQL.columns))
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        return cur.execute(query).fetchone()


def discard_batch(conn: Connection[Any], discard: Discard, limit: int = BATCH) -> Discard:
    """Give the next batch up: moves, trail rows and counters in one statement.

    A row that has left its state since the draft is passed over.

    Args:
        conn: inside a transaction; the caller commits.
        discard: a running one; its stored scope alone says what is meant.
        limit: deliveries to look at.

    Returns:
        The discard after it: DONE when that was the last batch.

    Raises:
        ConflictError: it is not running any more.
    """
    conditions, params = where(DeliveryFilter.from_json(discard.filter))
    guard = sql.SQL(_SQL.unmoved_since_draft)
    query = sql.SQL(_SQL.discard_batch).format(
        conditions=conditions, guard=guard, moves=sql.SQL(_MOVES.discard_moves).format(guard=guard)
    )
    params |= {"discard_id": discard.id, "limit": limit}
    params |= given_up(discard.started_by, discard.reason)
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        after = cur.execute(query, params).fetchone()
    if after is None:
        raise ConflictError(f"Discard {discard.id} is not running any more.")
    return after


def fail_discard(conn: Connection[Any], discard_id: UUID, failure: str) -> None:
    """End a running discard that cannot go on, with a line that says why."""
    conn.execute(_SQL.fail_discard, {"id": discard_id, "failure": failure})
