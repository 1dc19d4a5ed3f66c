"""Reading the rollups: the figures of a window, of each minute in it, of each subscription."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import dict_row, scalar_row

from fencepost.cells import WIDTH, Measure
from fencepost.figures import Figures, Window
from fencepost.store.queries import load
from fencepost.store.rollups import EVERYTHING

_SQL = load("figures.sql")

ALL: Final = frozenset(Measure)


def read_as_of(conn: Connection[Any]) -> datetime:
    """Give the moment up to which everything that was committed is in the figures.

    It stays behind while no worker runs, and while one catches up with a backlog.
    """
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("datetime", cur.execute(_SQL.read_as_of).fetchone())


def read_pulse(conn: Connection[Any], window: Window, sub: UUID | None = None) -> int:
    """Give a number that changes whenever the figures of a window do, for less than they cost.

    Args:
        conn: reads only.
        window: as for ``read_figures``; with another one the number means something else.
        sub: of one subscription; None: of all together.
    """
    whose = EVERYTHING if sub is None else sub
    params = {"sub": whose, "since": window.since, "until": window.until}
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("int", cur.execute(_SQL.read_pulse, params).fetchone())


def read_figures(
    conn: Connection[Any], window: Window, sub: UUID | None = None, *, of: Collection[Measure] = ALL
) -> Figures:
    """Add up a window: counts and rates, and percentiles by ``Figures.percentiles``.

    Args:
        conn: reads only.
        window: begins with the whole minute in which ``since`` lies; more than a day ago, with
            the whole hour.
        sub: of one subscription; None: of all together.
        of: whose durations to read; counts and reasons always come.
    """
    whose = EVERYTHING if sub is None else sub
    return read_figures_of_each(conn, window, (whose,), of=of)[whose]


def read_figures_of_each(
    conn: Connection[Any], window: Window, subs: Iterable[UUID], *, of: Collection[Measure] = ALL
) -> Mapping[UUID, Figures]:
    """Add up a window for each of these subscriptions, those without figures included.

    Args:
        conn: reads only; the cost grows with subscriptions and minutes.
        window: as for ``read_figures``.
        subs: their ids.
        of: whose durations to read; the fewer, the faster.
    """
    wanted = list(subs)
    found = _read(conn, _SQL.by_subscription, window, wanted, of)
    return {sub: found.get(sub, Figures()) for sub in wanted}


def read_series(
    conn: Connection[Any],
    window: Window,
    step: timedelta,
    sub: UUID | None = None,
    *,
    of: Collection[Measure] = ALL,
) -> Sequence[tuple[datetime, Figures]]:
    """Add up a window step by step, for a chart.

    Args:
        conn: reads only.
        window: as for ``read_figures``; its begin is cut down to the minute.
        step: a number of whole minutes. More than a day ago an hour is told at once: with shorter
            steps it stands at its first one.
        sub: of one subscription; None: of all together.
        of: whose durations to read; a chart of one segment needs one, as in ``MEASURES``.

    Returns:
        The beginning and the figures of every step of the window, also where nothing happened.
        The newest is still growing.
    """
    since = window.since.replace(second=0, microsecond=0)
    whose = EVERYTHING if sub is None else sub
    found = _read(conn, _SQL.by_time, Window(since, window.until), (whose,), of, step=step)
    steps = -((since - window.until) // step)
    return [(at, found.get(at, Figures())) for at in (since + n * step for n in range(steps))]


def _read(
    conn: Connection[Any],
    key: LiteralString,
    window: Window,
    subs: Collection[UUID],
    of: Collection[Measure],
    **more: object,
) -> dict[Any, Figures]:
    query = sql.SQL(_SQL.read_figures).format(key=sql.SQL(key), width=WIDTH)
    params = {
        "since": window.since,
        "until": window.until,
        "subs": list(subs),
        "measures": [int(measure) for measure in of],
        **more,
    }
    with conn.cursor(row_factory=dict_row) as cur:
        rows = cur.execute(query, params).fetchall()
    return {
        row.pop("key"): Figures(
            cells=dict(zip(row.pop("cells"), row.pop("counts"), strict=True)), **row
        )
        for row in rows
    }
