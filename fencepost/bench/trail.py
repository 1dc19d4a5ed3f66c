"""Figures that the trail itself tells, after a part of a run: when what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

from fencepost.store.queries import load

_SQL: Final = load("bench.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Percentiles of milliseconds."""

    p50: float
    p95: float
    p99: float


def drained_per_second(conn: Connection[Any], since: object) -> float | None:
    """Give how many were delivered each second, from a tenth of them to nine tenths.

    Args:
        conn: the owner's.
        since: the part's beginning, database time.

    Returns:
        None when that is no stretch of time: too few were delivered.
    """
    return _first(conn.execute(_SQL.measure_drain, {"since": since}).fetchone())


def arrived_per_second(conn: Connection[Any], since: object) -> float | None:
    """Give the rate from the first event published since then to the last outcome."""
    return _first(conn.execute(_SQL.measure_arrival, {"since": since}).fetchone())


def waits(
    conn: Connection[Any],
    since: object,
    subscriptions: Sequence[UUID],
    *,
    until: object = "infinity",
) -> tuple[Waits, Waits] | None:
    """Give how long deliveries made since then have waited for a worker, and their ingest before.

    Args:
        conn: the owner's.
        since: the part's beginning, database time.
        subscriptions: whose deliveries count.
        until: the part's end.

    Returns:
        None when there are none.
    """
    with conn.cursor(row_factory=dict_row) as cur:
        params = {"since": since, "until": until, "ids": list(subscriptions)}
        row = cur.execute(_SQL.measure_waits, params).fetchone()
    if row is None or row["wait_p50"] is None:
        return None
    wait, ingest = (
        Waits(**{name: row[f"{kind}_{name}"] for name in ("p50", "p95", "p99")})
        for kind in ("wait", "ingest")
    )
    return wait, ingest


def _first(row: Sequence[Any] | None) -> float | None:
    return None if row is None else row[0]
