"""Counts by state at a page's price: exact while that is cheap, and honest when it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from sqlalchemy import Text, cast, column, func, select, table
from sqlalchemy.dialects.postgresql import ARRAY, REGCLASS

from dashboard.models import Delivery, db, is_in
from fencepost.states import HELD, WAITING, State
from fencepost.store.deliveries import count_by_state

SMALL: Final = 100 * 1024 * 1024
"""Bytes of the table; up to that a whole count takes a fraction of a page's time."""
CAP: Final = 10_000
"""Where counting stops beyond it, as the lists' own counts do."""


@dataclass(frozen=True, slots=True)
class Tally:
    """A number, and how it is meant."""

    number: int
    is_more: bool = False
    """Counting stopped there."""
    is_about: bool = False
    """The planner's estimate."""

    def __str__(self) -> str:
        """Write it with its reservation."""
        return f"{'about ' if self.is_about else ''}{self.number:,}{'+' if self.is_more else ''}"


def tally(conn: Connection[Any]) -> Mapping[State, Tally]:
    """Count all deliveries; dead letters that somebody gave up are in no state."""
    size, rows = _size()
    if size <= SMALL:
        counts = count_by_state(conn)
        counts[State.DLQ] -= _count_discarded()
        return {state: Tally(number) for state, number in counts.items()}
    found, guesses = _count_each(), _guess(rows)
    for state, number in guesses.items():
        if found[state].is_more and number > CAP:
            found[state] = Tally(number, is_about=True)
    return found


def tally_of(sub: UUID) -> Mapping[State, Tally]:
    """Count one subscription's deliveries, likewise, each state up to a limit."""
    return _count_each(sub)


def _count_each(sub: UUID | None = None) -> dict[State, Tally]:
    """Count on the index of each group of states, and no further than the limit.

    Nothing is counted as RECEIVED: fan-out inserts deliveries as ENCRYPTED, and no index
    would find others.
    """
    found = dict.fromkeys(State, Tally(0))
    for states in (WAITING, HELD, {State.DELIVERED}, {State.DLQ}):
        rows = select(Delivery.current_state).where(is_in(*states))
        if State.DLQ in states:
            rows = rows.where(Delivery.discarded_at.is_(None))
        if sub is not None:
            rows = rows.where(Delivery.subscription_id == sub)
        few = rows.limit(CAP + 1).subquery()
        query = select(few.c.current_state, func.count()).group_by(few.c.current_state)
        counts = {State(state): number for state, number in db.session.execute(query)}
        is_more = sum(counts.values()) > CAP
        for state, number in counts.items():
            found[state] = Tally(min(number, CAP), is_more=is_more)
    return found


def _size() -> tuple[int, int]:
    """Give the table's size in bytes, and how many rows the planner thinks it has."""
    name = cast(Delivery.__tablename__, REGCLASS)
    pg_class = table("pg_class", column("oid"), column("reltuples"))
    query = select(func.pg_relation_size(name), pg_class.c.reltuples).where(pg_class.c.oid == name)
    size, rows = db.session.execute(query).one()
    return int(size), int(rows)


def _guess(rows: int) -> Mapping[State, int]:
    """Say how many rows the planner thinks are in each state; empty before the first ANALYZE."""
    pg_stats = table(
        "pg_stats",
        *map(
            column, ("schemaname", "tablename", "attname", "most_common_vals", "most_common_freqs")
        ),
    )
    values = cast(cast(pg_stats.c.most_common_vals, Text), ARRAY(Text))
    query = select(func.unnest(values), func.unnest(pg_stats.c.most_common_freqs)).where(
        pg_stats.c.schemaname == func.current_schema(),
        pg_stats.c.tablename == Delivery.__tablename__,
        pg_stats.c.attname == "current_state",
    )
    return {State(state): round(rows * share) for state, share in db.session.execute(query)}


def _count_discarded() -> int:
    query = select(func.count()).where(is_in(State.DLQ), Delivery.discarded_at.is_not(None))
    return db.session.scalar(query) or 0
