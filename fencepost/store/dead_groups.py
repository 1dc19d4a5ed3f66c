"""Dead letters by what they died of: counted on the spot while they are few, by a worker if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

from psycopg import Connection, sql
from psycopg.rows import dict_row, scalar_row

from fencepost.dead_groups import DeadGroup, DeadGroups
from fencepost.filters import DeliveryFilter
from fencepost.states import State
from fencepost.store.conditions import pin, read_clock, where
from fencepost.store.deliveries import count_capped
from fencepost.store.queries import load
from fencepost.store.rollups import EVERYTHING

_SQL = load("dead_groups.sql")

FEW: Final = 10_000
"""So many are counted while somebody waits, in some 10 ms."""

MOST_GROUPS: Final = 50
"""On one page."""


def is_due(conn: Connection[Any]) -> bool:
    """Tell whether it is time to count again."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return bool(cur.execute(_SQL.is_due).fetchone())


def recount(conn: Connection[Any]) -> None:
    """Count all groups, unless another worker is doing it.

    The count is a whole one and not a running one: it reads an index that has nothing but the
    dead letters in it, and whatever happened to them, it is right.

    Args:
        conn: inside a transaction of its own; the caller commits.
    """
    with conn.cursor(row_factory=scalar_row) as cur:
        if not cur.execute(_SQL.take_count).fetchone() or not is_due(conn):
            return
    as_of = read_clock(conn)
    conn.execute(_SQL.pin_plan)
    conn.execute(_SQL.recount)
    conn.execute(_SQL.note_counted, {"as_of": as_of})


def read_groups(
    conn: Connection[Any], scope: DeliveryFilter, *, most: int = MOST_GROUPS
) -> DeadGroups:
    """Group the dead letters that a filter matches; those that were given up never count.

    Few are counted now. Many are read as a worker counted them last, where the filter is by
    subscription, error or status alone; where it is not, or no worker has seen so many, the
    latest are counted.

    Args:
        conn: reads only.
        scope: of dead letters; other states and discarded ones are passed over.
        most: groups.
    """
    scope = replace(pin(conn, scope), state=(State.DLQ,), discarded=False)
    as_of, is_all = None, True
    conditions, params = _tallied(scope)
    if _is_tallied(scope):
        as_of = _read_counted(conn, conditions, params)
    if as_of is None:
        conditions, params = where(scope)
    query = sql.SQL(_SQL.of_latest if as_of is None else _SQL.of_tally).format(
        conditions=conditions
    )
    with conn.cursor(row_factory=dict_row) as cur:
        rows = cur.execute(query, params | {"most": most + 1, "newest": FEW}).fetchall()
        for row in rows:
            is_all = row.pop("is_all")
        ids = [row["sample_id"] for row in rows[:most]]
        about = {row.pop("id"): row for row in cur.execute(_SQL.describe, {"ids": ids}).fetchall()}
    groups = [
        DeadGroup(**row, **about[row["sample_id"]])
        for row in rows[:most]
        if row["sample_id"] in about  # one that is gone takes its group along
    ]
    newest = None if is_all else FEW
    return DeadGroups(groups, as_of=as_of, newest=newest, is_cut=len(rows) > most)


def count_dead(conn: Connection[Any]) -> tuple[int, datetime | None]:
    """Count the dead letters that nobody gave up.

    Returns:
        Few: how many now, and None. Many: as many as a worker counted, and when; where none has,
        ``FEW + 1``, which stands for more.
    """
    conditions, params = _tallied(DeliveryFilter())
    as_of = _read_counted(conn, conditions, params)
    if as_of is None:
        return count_capped(conn, DeliveryFilter(state=(State.DLQ,), discarded=False), FEW), None
    with conn.cursor(row_factory=scalar_row) as cur:
        return int(cur.execute(_SQL.count_counted).fetchone() or 0), as_of


def read_last_entry(conn: Connection[Any]) -> datetime | None:
    """Give the minute, or long ago the hour, in which a delivery entered the DLQ last."""
    with conn.cursor(row_factory=scalar_row) as cur:
        found = cur.execute(_SQL.read_last_entry, {"everything": EVERYTHING}).fetchone()
    return cast("datetime | None", found)


def _is_tallied(scope: DeliveryFilter) -> bool:
    """Tell whether the groups' own key says all that the filter asks."""
    plain = DeliveryFilter(state=(State.DLQ,), discarded=False)
    return replace(scope, sub=(), err=(), code=()) == plain


def _tallied(scope: DeliveryFilter) -> tuple[sql.Composed, dict[str, Any]]:
    """Write the part of a filter that the groups' key can answer."""
    wanted = {_SQL.of_sub: scope.sub, _SQL.of_err: scope.err, _SQL.of_code: scope.code}
    conditions = [_SQL.everything, *(each for each, values in wanted.items() if values)]
    params = {
        "f_sub": list(scope.sub),
        "f_err": [str(error) for error in scope.err],
        "f_code_low": [codes.low for codes in scope.code],
        "f_code_high": [codes.high for codes in scope.code],
    }
    return sql.SQL("\n AND ").join(map(sql.SQL, conditions)), params


def _read_counted(
    conn: Connection[Any], conditions: sql.Composed, params: Mapping[str, Any]
) -> datetime | None:
    """Give the moment of the last count, if it found more than can be counted on the spot."""
    query = sql.SQL(_SQL.read_counted).format(conditions=conditions)
    with conn.cursor(row_factory=scalar_row) as cur:
        found = cur.execute(query, {**params, "few": FEW}).fetchone()
    return cast("datetime | None", found)
