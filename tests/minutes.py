"""Figures by the minute, put there as the worker's rollup would have left them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from uuid import UUID

from fencepost.cells import REASONS, WIDTH, Measure
from fencepost.histograms import bucket_of
from fencepost.model import ErrorClass
from fencepost.store.rollups import EVERYTHING
from stage import Stage

_NAMES = (
    "received", "attempts", "ended", "retries", "delivered", "first_delivered", "failed",
    "lease_expiries", "dead", "replayed", "discarded", "fenced",
)  # fmt: skip
_TYPICAL = {
    Measure.INGEST: 9, Measure.WAITING_WORKER: 40, Measure.PREPARING: 6, Measure.IN_FLIGHT: 118,
    Measure.TOTAL: 260,
}  # fmt: skip
"""Milliseconds that half of all visits do not exceed."""


def add_minute(
    stage: Stage, sub: UUID, at: datetime, *, cells: dict[int, int] | None = None, **counts: int
) -> None:
    """Put a minute of figures there, for a subscription and for everything together."""
    places = ", ".join(["%s"] * (len(_NAMES) + 5))
    for whose in (sub, EVERYTHING):
        stage.conn.execute(
            f"INSERT INTO webhook_rollups VALUES ({places}) ON CONFLICT DO NOTHING",
            (
                whose, 1, at.replace(second=0, microsecond=0), *(counts.get(n, 0) for n in _NAMES),
                list(cells or {}), list((cells or {}).values()),
            ),
        )  # fmt: skip


def add_hour(stage: Stage, sub: UUID) -> None:
    """Put an hour of busy minutes there, the last of them two minutes ago, one with an outage."""
    now: datetime = stage.value("SELECT fencepost_now()")
    chance = random.Random(60)
    for minute in range(2, 60):
        ended = chance.randrange(180, 260)
        failed = ended // 3 if 20 <= minute < 28 else ended // 50
        dead = failed // 12
        cells = Counter({REASONS[ErrorClass.HTTP_5XX]: dead} if dead else {})
        for measure, middle in _TYPICAL.items():
            for _ in range(40):
                took = middle * chance.lognormvariate(0, 0.7)
                cells[measure * WIDTH + bucket_of(took)] += ended // 40
        add_minute(
            stage, sub, now - timedelta(minutes=minute), cells=dict(cells),
            received=ended, attempts=ended, ended=ended, retries=failed, failed=failed, dead=dead,
            delivered=ended - failed, first_delivered=ended - failed - failed // 2,
        )  # fmt: skip
