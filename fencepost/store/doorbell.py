"""The doorbell: a producer's commit wakes a worker that has said that it sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from psycopg import Connection, sql
from psycopg.rows import class_row, scalar_row

from fencepost.store.queries import load

_SQL: Final = load("doorbell.sql")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the outbox saw, all of it in one snapshot.

    Attributes:
        is_waiting: there is something to fan out.
        is_marked: a worker has said that it sleeps.
        oldest_running: no transaction with an id below this one is still under way, and what
            they committed was seen.
    """

    is_waiting: bool
    is_marked: bool
    oldest_running: int


def look(conn: Connection[Any]) -> Look:
    """Look whether there is something to fan out, and who may still add to it unheard."""
    with conn.cursor(row_factory=class_row(Look)) as cur:
        return cast("Look", cur.execute(_SQL.look).fetchone())


def fall_asleep(conn: Connection[Any], *, seconds: int) -> int:
    """Ask producers to ring from now on, for so long.

    Returns:
        A transaction id: whoever wrote before it could see the wish has a lower one.
    """
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("int", cur.execute(_SQL.fall_asleep, {"seconds": seconds}).fetchone())


def stay_asleep(conn: Connection[Any], *, seconds: int) -> None:
    """Ask for as much again."""
    conn.execute(_SQL.stay_asleep, {"seconds": seconds})


def wake_up(conn: Connection[Any]) -> None:
    """Tell producers that somebody looks: their commits need not ring."""
    conn.execute(_SQL.wake_up)


def ring(conn: Connection[Any]) -> None:
    """Ring, as a producer would."""
    conn.execute(_SQL.ring)


def listen(conn: Connection[Any]) -> None:
    """Hear the bell on this connection, which must stay this session's."""
    with conn.cursor(row_factory=scalar_row) as cur:
        name = cast("str", cur.execute(_SQL.bell).fetchone())
        cur.execute(sql.SQL("LISTEN {}").format(sql.Identifier(name)))
