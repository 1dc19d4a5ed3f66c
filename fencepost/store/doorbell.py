"""The doorbell: a producer's commit wakes a worker that has said that it sleeps."""

from __future__ import annotations

from typing import Any

from psycopg import Connection, sql

from fencepost.store.queries import load

_SQL = load("doorbell.sql")
PREFIX = "fencepost_doorbell_"


def fall_asleep(conn: Connection[Any]) -> None:
    """Ask producers to ring from now on; look once more after it, for who did not see it yet."""
    conn.execute(_SQL.fall_asleep)


def wake_up(conn: Connection[Any]) -> None:
    """Tell producers that nobody sleeps: their commits need not ring."""
    conn.execute(_SQL.wake_up)


def ring(conn: Connection[Any]) -> None:
    """Ring, as a producer would."""
    conn.execute(_SQL.ring)


def listen(conn: Connection[Any], schema: str) -> None:
    """Hear the bell on this connection, which must stay this session's."""
    conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(PREFIX + schema)))
