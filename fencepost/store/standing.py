"""How deliveries stand now: counts that cost the same however many deliveries there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row

from fencepost.figures import Window
from fencepost.store.queries import load

_SQL = load("standing.sql")

CAP: Final = 10_000
"""Where counting stops, as the lists' own counts do: a number above it means "more"."""

CAP_OF_EACH: Final = 1_000
"""Likewise, where many subscriptions are counted one by one."""

LATELY: Final = timedelta(hours=1)
"""For what the DLQ has gained."""

NEWEST: Final = 50
"""Of a subscription's deliveries that failed, among which its last failure is looked for."""

_FEW: Final = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """What of all deliveries, or of one subscription's, is not delivered.

    Attributes:
        waiting: due and in nobody's hands.
        held: of those, the ones whose subscription is paused.
        sleeping: not due yet.
        in_flight: in a worker's hands.
        dead: in the DLQ, without those that were given up.
        dead_lately: of those, the ones that entered it within ``LATELY``.
        oldest_due_at: when the one that waits longest fell due; held ones do not count.
        next_due_at: when the next sleeping one falls due.
        oldest_dead_at: when the oldest dead letter entered; None also where it was not found
            because very many before it were given up.
    """

    waiting: int
    held: int
    sleeping: int
    in_flight: int
    dead: int
    dead_lately: int
    oldest_due_at: datetime | None
    next_due_at: datetime | None
    oldest_dead_at: datetime | None


@dataclass(frozen=True, slots=True)
class StandingOfOne:
    """The same in short, up to ``CAP_OF_EACH``, for a table of subscriptions."""

    id: UUID
    waiting: int
    sleeping: int
    dead: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure that a subscription is known to have had."""

    id: UUID
    delivery_id: UUID
    status: int | None
    error: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Fenced:
    """How many late writes fencing refused lately, up to ``CAP_OF_EACH``, and the last of them."""

    count: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Answers:
    """How many deliveries had this as their last answer; None: there was none, or none yet."""

    status: int | None
    count: int


def read_standing(conn: Connection[Any], sub: UUID | None = None) -> Standing:
    """Count what is not delivered, each kind up to ``CAP``.

    Args:
        conn: reads only.
        sub: of one subscription; None: of all.
    """
    scope = sql.SQL(_SQL.of_all if sub is None else _SQL.of_one)
    params = {"sub": sub, "most": CAP + 1, "lately": LATELY, "few": _FEW}
    with conn.cursor(row_factory=class_row(Standing)) as cur:
        found = cur.execute(sql.SQL(_SQL.read_standing).format(scope=scope), params).fetchone()
    return cast("Standing", found)


def read_standing_of_each(
    conn: Connection[Any], subs: Collection[UUID]
) -> Mapping[UUID, StandingOfOne]:
    """Count what is not delivered for each of these subscriptions."""
    query = sql.SQL(_SQL.read_standing_of_each).format()
    with conn.cursor(row_factory=class_row(StandingOfOne)) as cur:
        rows = cur.execute(query, {"subs": list(subs), "most": CAP_OF_EACH + 1}).fetchall()
    return {row.id: row for row in rows}


def read_last_failures(conn: Connection[Any], subs: Collection[UUID]) -> Mapping[UUID, Failure]:
    """Find each subscription's last failure among its newest that failed and its dead letters."""
    with conn.cursor(row_factory=class_row(Failure)) as cur:
        rows = cur.execute(
            _SQL.read_last_failures, {"subs": list(subs), "newest": NEWEST}
        ).fetchall()
    return {row.id: row for row in rows}


def count_fenced(conn: Connection[Any], sub: UUID | None = None) -> Fenced:
    """Count the late writes that fencing refused within ``LATELY``."""
    params = {"sub": sub, "most": CAP_OF_EACH + 1, "lately": LATELY}
    with conn.cursor(row_factory=class_row(Fenced)) as cur:
        return cast("Fenced", cur.execute(_SQL.count_fenced, params).fetchone())


def count_answers(conn: Connection[Any], sub: UUID, window: Window) -> Sequence[Answers]:
    """Group a subscription's deliveries that were made in a window by their last answer.

    Args:
        conn: reads only.
        sub: of this subscription.
        window: exact to the millisecond, as a list's bounds are.

    Returns:
        Most first; of the newest ``CAP`` deliveries, where there are more.
    """
    params = {"sub": sub, "since": window.since, "until": window.until, "most": CAP}
    with conn.cursor(row_factory=class_row(Answers)) as cur:
        return cur.execute(_SQL.count_answers, params).fetchall()
