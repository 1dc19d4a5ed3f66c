"""The work of a bulk replay: its deliveries become due again, batch by batch."""

from __future__ import annotations

from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, scalar_row

from fencepost.errors import ConflictError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store.conditions import where
from fencepost.store.queries import load

_SQL = load("replays.sql")
_MOVES = load("operators.sql")

LARGEST_BATCH: Final = 500


def take_due(conn: Connection[Any]) -> Replay | None:
    """Lock a running replay whose next batch is due, in turn; None when there is none.

    Args:
        conn: inside a transaction, which holds the lock: no other worker makes this batch, and
            a pause or cancel waits for it.
    """
    query = sql.SQL(_SQL.take_due).format(columns=sql.SQL(_SQL.columns))
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        return cur.execute(query).fetchone()


def read_wait(conn: Connection[Any]) -> float | None:
    """Give the seconds until a batch is due, 0 or less for now; None: nothing is running."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("float | None", cur.execute(_SQL.read_wait).fetchone())


def batch_size(replay: Replay) -> int:
    """Give how many to requeue at once: about a second's worth."""
    if replay.rate_per_second is None:
        return LARGEST_BATCH
    return max(1, min(LARGEST_BATCH, int(replay.rate_per_second)))


def requeue_batch(conn: Connection[Any], replay: Replay, limit: int) -> Replay:
    """Requeue the next batch: moves, trail rows and counters in one statement.

    A row that has left its state since the draft, or cannot be sent any more, is passed over.

    Args:
        conn: inside the transaction of ``take_due``.
        replay: from ``take_due``; its stored scope alone says what is meant.
        limit: deliveries to look at.

    Returns:
        The replay after it: DONE when that was the last batch.

    Raises:
        ConflictError: it is not running any more.
    """
    scope = DeliveryFilter.from_json(replay.filter)
    conditions, params = where(scope)
    guard = sql.SQL(_SQL.unmoved_since_draft)
    query = sql.SQL(_SQL.requeue_batch).format(
        conditions=conditions, guard=guard, moves=sql.SQL(_MOVES.replay_moves).format(guard=guard)
    )
    params |= {
        "replay_id": replay.id,
        "actor": replay.started_by,
        "reason": replay.reason,
        "with_discarded": bool(scope.discarded),
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        after = cur.execute(query, params).fetchone()
    if after is None:
        raise ConflictError(f"Replay {replay.id} is not running any more.")
    return after


def fail_replay(conn: Connection[Any], replay_id: UUID, failure: str) -> None:
    """End a running replay that cannot go on, with a line that says why."""
    conn.execute(_SQL.fail_replay, {"id": replay_id, "failure": failure})
