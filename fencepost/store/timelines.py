"""Timelines of many deliveries at once, for pages that draw them beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row, scalar_row

from fencepost.model import Delivery, FencedWrite, TrailRow
from fencepost.store.queries import load
from fencepost.timeline import Timeline, build

_SQL = load("stories.sql")

LONGEST: Final = 200
"""Rows of a trail; a longer one has a page of its own to be told on."""


def read_timelines(
    conn: Connection[Any], rows: Sequence[Delivery], now: datetime
) -> Mapping[UUID, Timeline]:
    """Read the timelines of these deliveries, in three reads whatever their number.

    Args:
        conn: reads only.
        rows: the deliveries; those with more than ``LONGEST`` rows are left out.
        now: the database's clock: where open segments end for now.
    """
    told = [row for row in rows if row.seq <= LONGEST]
    ids = [row.id for row in told]
    trails: dict[UUID, list[TrailRow]] = defaultdict(list)
    with conn.cursor(row_factory=dict_row) as cur:
        for row in cur.execute(_SQL.read_trails, {"ids": ids, "most": LONGEST}):
            trails[row.pop("delivery_id")].append(TrailRow(**row))
    late: dict[UUID, list[FencedWrite]] = defaultdict(list)
    with conn.cursor(row_factory=class_row(FencedWrite)) as cur:
        for write in cur.execute(_SQL.read_fenced_of_many, {"ids": ids}):
            late[write.delivery_id].append(write)
    with conn.cursor(row_factory=scalar_row) as cur:
        subs = list({row.subscription_id for row in told})
        paused = set(cur.execute(_SQL.list_paused, {"subs": subs}))
    return {
        row.id: build(
            trails[row.id],
            delivery=row,
            fenced=late[row.id],
            now=now,
            is_paused=row.subscription_id in paused,
        )
        for row in told
        if trails[row.id]
    }
