"""Figures of a window of time: counts, rates, and how long each stretch of a delivery took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, dict_row, scalar_row

from fencepost.filters import DeliveryFilter
from fencepost.records import Percentiles, Stats
from fencepost.states import FINISHED, Fact, State
from fencepost.store.conditions import read_clock
from fencepost.store.queries import load

_SQL = load("stats.sql")

WINDOW: Final = timedelta(hours=24)
"""Up to now, where no other is asked for."""

SAMPLE: Final = 5_000
"""Percentiles are those of the newest so many deliveries of the window."""


def read_stats(
    conn: Connection[Any],
    *,
    sub: UUID | None = None,
    since: datetime | timedelta | None = None,
    until: datetime | timedelta | None = None,
) -> Stats:
    """Compute the figures of a window from the raw tables.

    Args:
        conn: reads only; its cost grows with what happened in the window.
        sub: of one subscription; None: of all.
        since: aware, or a time before now; None: 24 hours before ``until``.
        until: aware, or a time before now; None: now.
    """
    now = read_clock(conn)
    window = DeliveryFilter(since=since, until=until).pinned(now)
    end = cast("datetime", window.until or now)
    start = cast("datetime", window.since or end - WINDOW)
    params = {"since": start, "until": end, "sub": sub, "sample": SAMPLE}
    of_deliveries = _SQL.of_all if sub is None else _SQL.of_one
    with conn.cursor(row_factory=dict_row) as cur:
        made = cur.execute(_scoped(_SQL.count_received, of_deliveries), params).fetchall()
    of_moves = "" if sub is None else _SQL.moves_of_one
    moves = dict(conn.execute(_scoped(_SQL.count_moves, of_moves), params).fetchall())
    of_fenced = _SQL.of_all if sub is None else _SQL.fenced_of_one
    with conn.cursor(row_factory=scalar_row) as cur:
        fenced = cur.execute(_scoped(_SQL.count_fenced, of_fenced), params).fetchone()
    with conn.cursor(row_factory=class_row(Percentiles)) as cur:
        segments = cur.execute(_scoped(_SQL.measure_segments, of_deliveries), params).fetchall()
    return Stats(
        since=start,
        until=end,
        sub=sub,
        **_received(made),
        segments=tuple(sorted(segments, key=lambda one: _ORDER.index(one.kind))),
        attempts=moves.get(State.ATTEMPTED, 0),
        delivered=moves.get(State.DELIVERED, 0),
        failed=moves.get(Fact.FAILED, 0),
        lease_expiries=moves.get(Fact.LEASE_EXPIRED, 0),
        dead_lettered=moves.get(State.DLQ, 0) - moves.get(Fact.DISCARDED, 0),
        replayed=moves.get(Fact.REPLAYED, 0),
        discarded=moves.get(Fact.DISCARDED, 0),
        fenced_writes=cast("int", fenced),
    )


_ORDER: Final = ("ingest", "waiting", "sleeping", "held", "preparing", "in_flight")


def _received(made: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up the deliveries that were made, which were counted by the state they are in now."""
    by_state = {State(row["current_state"]): row for row in made}
    finished = [by_state[state] for state in FINISHED if state in by_state]
    delivered = by_state.get(State.DELIVERED)
    attempted = sum(row["attempted"] for row in made)
    return {
        "received": sum(row["received"] for row in made),
        "states": {
            state: by_state[state]["received"] if state in by_state else 0 for state in State
        },
        "retry_rate": _share(attempted - sum(row["attempted_once"] for row in made), attempted),
        "first_try_rate": _share(
            0 if delivered is None else delivered["attempted_once"],
            sum(row["attempted"] for row in finished),
        ),
    }


def _scoped(query: str, scope: str) -> sql.Composed:
    return sql.SQL(query).format(scope=sql.SQL(scope))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
