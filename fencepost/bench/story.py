"""The timeline of one delivery of a run, at random: figures of what reads wrong are worthless."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from psycopg import Connection

from fencepost.bench.plan import Plan
from fencepost.store.conditions import read_clock
from fencepost.store.deliveries import get_delivery, read_fenced, read_trail
from fencepost.store.queries import load
from fencepost.timeline import build
from fencepost.timeline_text import as_text

_SQL: Final = load("bench.sql")


def tell(conn: Connection[Any], plan: Plan, chance: random.Random) -> Sequence[str]:
    """Give the timeline of a delivered one; nothing when there is none."""
    place = chance.randrange(max(1, plan.well_ones(plan.deliveries)))
    row = conn.execute(_SQL.pick_one, {"place": place}).fetchone()
    if row is None:
        return ()
    timeline = build(
        read_trail(conn, row[0]),
        delivery=get_delivery(conn, row[0]),
        fenced=read_fenced(conn, row[0]),
        now=read_clock(conn),
        is_paused=False,
    )
    return list(as_text(timeline.rows, timeline.fenced))
