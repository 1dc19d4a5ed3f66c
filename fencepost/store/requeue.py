"""The work of a bulk replay: its deliveries become due again, batch by batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row

from fencepost.errors import ConflictError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store.conditions import where
from fencepost.store.queries import load

_SQL = load("requeue.sql")
_REPLAYS = load("replays.sql")
_MOVES = load("operators.sql")
_PAGING = load("paging.sql")

LARGEST_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to do.

    Attributes:
        due_in: seconds until a batch is due, 0 or less for now; None: nothing is running.
        has_outcomes: requeued deliveries have moved since they were counted.
    """

    due_in: float | None
    has_outcomes: bool


@dataclass(frozen=True, slots=True)
class _Part:
    subscription_id: UUID
    last_at: datetime | None
    last_id: UUID | None


def read_work(conn: Connection[Any]) -> Work:
    """Look whether a batch is due."""
    with conn.cursor(row_factory=class_row(Work)) as cur:
        return cur.execute(_SQL.read_work).fetchone() or Work(None, has_outcomes=False)


def take_due(conn: Connection[Any]) -> Replay | None:
    """Lock a running replay whose next batch is due, in turn; None when there is none.

    Args:
        conn: inside a transaction, which holds the lock: no other worker makes this batch, and
            a pause or cancel waits for it.
    """
    query = sql.SQL(_SQL.take_due).format(columns=_columns("r"))
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        return cur.execute(query).fetchone()


def batch_size(replay: Replay) -> int:
    """Give how many to requeue at once: about a second's worth."""
    if replay.rate_per_second is None:
        return LARGEST_BATCH
    return max(1, min(LARGEST_BATCH, int(replay.rate_per_second)))


def requeue_batch(conn: Connection[Any], replay: Replay, limit: int) -> Replay:
    """Requeue the next batch of one subscription: moves, trail and counters in one statement.

    A row that has left its state since the draft, or cannot be sent any more, is passed over.

    Args:
        conn: inside the transaction of ``take_due``.
        replay: from ``take_due``; its stored scope alone says what is meant.
        limit: deliveries to requeue.

    Returns:
        The replay after it: DONE when that was the last batch; as it was when no part is due.

    Raises:
        ConflictError: it is not running any more.
    """
    with conn.cursor(row_factory=class_row(_Part)) as cur:
        part = cur.execute(_SQL.next_part, {"replay_id": replay.id}).fetchone()
    if part is None:
        return replay
    scope = DeliveryFilter.from_json(replay.filter)
    conditions, params = where(scope)
    stretch, _ = where(_stretch(scope))
    guard = sql.SQL(_SQL.unmoved_since_draft)
    query = sql.SQL(_SQL.requeue_batch).format(
        columns=_columns("r"),
        conditions=conditions,
        stretch=stretch,
        keyset=sql.SQL(_keyset(replay, part, scope)),
        order=sql.SQL(_order(replay, scope)),
        guard=guard,
        moves=sql.SQL(_MOVES.replay_moves).format(guard=guard),
    )
    params |= {
        "replay_id": replay.id,
        "subscription_id": part.subscription_id,
        "key_at": part.last_at,
        "key_id": part.last_id,
        "actor": replay.started_by,
        "reason": replay.reason,
        "with_discarded": bool(scope.discarded),
        "limit": limit,
        "looks": max(limit, LARGEST_BATCH),
    }
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        after = cur.execute(query, params).fetchone()
    if after is None:
        raise ConflictError(f"Replay {replay.id} is not running any more.")
    return after


def fail_replay(conn: Connection[Any], replay_id: UUID, failure: str) -> None:
    """End a running replay that cannot go on, with a line that says why."""
    conn.execute(_SQL.fail_replay, {"id": replay_id, "failure": failure})


def _stretch(scope: DeliveryFilter) -> DeliveryFilter:
    """Give what of a scope says where in its index it lies; the rest is judged row by row."""
    states = scope.state if scope.is_by_entry else ()
    return replace(
        DeliveryFilter(), id=scope.id, state=states, since=scope.since, until=scope.until
    )


def _keyset(replay: Replay, part: _Part, scope: DeliveryFilter) -> str:
    if part.last_id is None:
        return _PAGING.from_the_start
    if scope.is_by_entry:
        return _PAGING.entered_before if replay.is_newest_first else _PAGING.entered_after
    return _PAGING.older_than if replay.is_newest_first else _PAGING.newer_than


def _order(replay: Replay, scope: DeliveryFilter) -> str:
    if scope.is_by_entry:
        return _PAGING.last_entered_first if replay.is_newest_first else _PAGING.first_entered_first
    return _PAGING.newest_first if replay.is_newest_first else _PAGING.oldest_first


def _columns(table: str) -> sql.Composed:
    names = _REPLAYS.columns.replace("\n", " ").split(", ")
    return sql.SQL(", ").join(sql.Identifier(table, name.strip()) for name in names)
