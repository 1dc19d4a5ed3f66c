"""Figures of a window of time: how its deliveries stand, and what the rollups tell of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql

from fencepost.figures import Stats, Window
from fencepost.filters import DeliveryFilter
from fencepost.states import State
from fencepost.store.conditions import read_clock
from fencepost.store.figures import read_as_of, read_figures
from fencepost.store.queries import load

_SQL = load("stats.sql")

WINDOW: Final = timedelta(hours=24)
"""Up to now, where no other is asked for."""


def read_stats(
    conn: Connection[Any],
    *,
    sub: UUID | None = None,
    since: datetime | timedelta | None = None,
    until: datetime | timedelta | None = None,
) -> Stats:
    """Read the figures of a window.

    Args:
        conn: reads only; in one snapshot, where the parts must agree.
        sub: of one subscription; None: of all.
        since: aware, or a time before now; None: 24 hours before ``until``.
        until: aware, or a time before now; None: now.
    """
    now = read_clock(conn)
    asked = DeliveryFilter(since=since, until=until).pinned(now)
    end = cast("datetime", asked.until or now)
    window = Window(cast("datetime", asked.since or end - WINDOW), end)
    scope = _SQL.of_all if sub is None else _SQL.of_one
    counted = conn.execute(
        sql.SQL(_SQL.count_received).format(scope=sql.SQL(scope)),
        {"since": window.since, "until": window.until, "sub": sub},
    ).fetchall()
    states = dict.fromkeys(State, 0) | {State(state): count for state, count in counted}
    return Stats(
        window=window,
        sub=sub,
        as_of=read_as_of(conn),
        states=states,
        figures=read_figures(conn, window, sub),
    )
