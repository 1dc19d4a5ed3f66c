"""Counts by state at a page's price: exact while that is cheap, and honest when it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from sqlalchemy import cast, column, func, select, table
from sqlalchemy.dialects.postgresql import REGCLASS

from dashboard.models import Delivery, db
from fencepost.filters import DeliveryFilter
from fencepost.states import State
from fencepost.store.deliveries import count_by_state, count_capped

_SMALL: Final = 200 * 1024 * 1024
"""Bytes of the table; up to that a whole count takes a fraction of a page's time."""
_CAP: Final = 100_000
_CAP_OF_ONE: Final = 10_000


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
    if size <= _SMALL:
        counts = count_by_state(conn)
        counts[State.DLQ] -= _count_discarded()
        return {state: Tally(number) for state, number in counts.items()}
    found = {state: _capped(conn, _scope(state), _CAP) for state in State}
    if found[State.DELIVERED].is_more and rows > 0:
        rest = sum(each.number for state, each in found.items() if state is not State.DELIVERED)
        found[State.DELIVERED] = Tally(max(_CAP, rows - rest), is_about=True)
    return found


def tally_of(conn: Connection[Any], sub: UUID) -> Mapping[State, Tally]:
    """Count one subscription's deliveries, likewise, each state up to a limit."""
    return {state: _capped(conn, _scope(state, sub), _CAP_OF_ONE) for state in State}


def _scope(state: State, *sub: UUID) -> DeliveryFilter:
    """What the list behind a tile shows."""
    return DeliveryFilter(state=(state,), sub=sub, discarded=False if state is State.DLQ else None)


def _capped(conn: Connection[Any], scope: DeliveryFilter, cap: int) -> Tally:
    number = count_capped(conn, scope, cap)
    return Tally(min(number, cap), is_more=number > cap)


def _size() -> tuple[int, int]:
    """Give the table's size in bytes, and how many rows the planner thinks it has."""
    name = cast(Delivery.__tablename__, REGCLASS)
    pg_class = table("pg_class", column("oid"), column("reltuples"))
    query = select(func.pg_relation_size(name), pg_class.c.reltuples).where(pg_class.c.oid == name)
    size, rows = db.session.execute(query).one()
    return int(size), int(rows)


def _count_discarded() -> int:
    query = select(func.count()).where(
        Delivery.current_state == State.DLQ, Delivery.discarded_at.is_not(None)
    )
    return db.session.scalar(query) or 0
