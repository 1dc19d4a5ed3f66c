"""Windows, charts and lists add up minutes and hours, whichever of the two a time is kept in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection, sql

from factories import make_deliveries, make_subscription, pass_time
from fencepost.cells import BY_KIND, BY_WAIT, OTHER_REASON, REASONS, WIDTH, Measure
from fencepost.figures import MEASURES, Figures, Window
from fencepost.histograms import LAST, LOG_GAMMA, SMALLEST_MS, Histogram, bucket_of, value_of
from fencepost.model import ErrorClass
from fencepost.segments import SegmentKind, WaitedFor
from fencepost.store import rollups
from fencepost.store.conditions import read_clock
from fencepost.store.figures import (
    read_as_of,
    read_figures,
    read_figures_of_each,
    read_series,
)
from journeys import acting_as, deliver
from rolling import roll

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KEEP = timedelta(days=30)


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


def add(
    db: Connection[Any], sub: UUID, at: datetime, *, delivered: int = 0, cells: dict[int, int]
) -> None:
    """Put a minute there, as if it had been rolled up."""
    db.execute(
        "INSERT INTO webhook_rollups VALUES"
        " (%s, 1, %s, 0, 0, %s, 0, %s, 0, 0, 0, 0, 0, 0, 0, %s, %s)",
        (sub, at, delivered, delivered, list(cells), list(cells.values())),
    )


def fold(db: Connection[Any], before: datetime) -> bool:
    with db.transaction(), acting_as(db, "worker"):
        assert rollups.take_rollup(db)
        return rollups.fold(db, before=before, keep=KEEP)


def kept(db: Connection[Any]) -> list[tuple[int, datetime]]:
    return db.execute(
        "SELECT DISTINCT minutes, starts_at FROM webhook_rollups ORDER BY 1, 2"
    ).fetchall()


def in_flight(ms: float) -> int:
    return Measure.IN_FLIGHT * WIDTH + bucket_of(ms)


def test_a_window_begins_with_a_whole_minute_and_ends_before_its_end(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    for n in range(4):
        add(db, sub, NOON + n * MINUTE, delivered=10**n, cells={in_flight(5): 1})
    window = Window(NOON + timedelta(seconds=90), NOON + 3 * MINUTE)
    assert read_figures(db, window, sub).delivered == 110
    assert read_figures(db, Window(NOON, NOON), sub) == Figures()
    assert read_figures(db, Window(NOON, NOON + MINUTE), uuid4()) == Figures()


def test_minutes_become_hours_without_a_change_of_what_they_add_up_to(db: Connection[Any]) -> None:
    subs = [make_subscription(db), make_subscription(db)]
    chance = random.Random(7)
    for sub in subs:
        for n in chance.sample(range(180), 100):
            cells = {in_flight(10**e): chance.randint(1, 9) for e in range(4)}
            add(db, sub, NOON + n * MINUTE, delivered=n, cells=cells)
    window = Window(NOON, NOON + 3 * HOUR)
    before = read_figures_of_each(db, window, subs)
    assert fold(db, NOON + 2 * HOUR)
    assert {at for minutes, at in kept(db) if minutes == 60} == {NOON, NOON + HOUR}
    assert min(at for minutes, at in kept(db) if minutes == 1) >= NOON + 2 * HOUR
    assert read_figures_of_each(db, window, subs) == before
    # What commits late goes to its minute, and joins the hour at the next turn.
    add(db, subs[0], NOON + 5 * MINUTE, delivered=1000, cells={in_flight(1): 1, 3: 1})
    late = read_figures(db, window, subs[0])
    assert late.delivered == before[subs[0]].delivered + 1000
    assert late.dead_by_reason == {"tls": 1}
    assert fold(db, NOON + 2 * HOUR)
    assert read_figures(db, window, subs[0]) == late
    assert (1, NOON + 5 * MINUTE) not in kept(db)


def test_folding_takes_turns_and_old_hours_go(
    db: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "FOLD_BATCH", 25)
    sub = make_subscription(db)
    for n in range(60):
        add(db, sub, NOON + n * MINUTE, delivered=1, cells={in_flight(3): 2})
    window = Window(NOON, NOON + HOUR)
    assert [fold(db, NOON + HOUR) for _ in range(3)] == [False, False, True]
    found = read_figures(db, window, sub)
    assert (found.delivered, found.histogram(Measure.IN_FLIGHT).total) == (60, 120)
    assert kept(db) == [(60, NOON)]
    assert fold(db, NOON + KEEP)
    assert kept(db) == [(60, NOON)]
    assert fold(db, NOON + KEEP + HOUR)
    assert kept(db) == []


def test_old_enough_minutes_are_noticed_once(db: Connection[Any]) -> None:
    before = rollups.read_progress(db).fold_before
    assert before is not None
    fold(db, before)
    assert rollups.read_progress(db).fold_before is None
    pass_time(db, 3600)
    assert rollups.read_progress(db).fold_before == before + HOUR


def test_a_series_has_every_step_and_adds_up_to_its_window(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    add(db, sub, NOON, delivered=1, cells={in_flight(1): 1})
    add(db, sub, NOON + 4 * MINUTE, delivered=2, cells={in_flight(100): 2})
    add(db, sub, NOON + 14 * MINUTE, delivered=4, cells={in_flight(5): 4, 9: 4})
    window = Window(NOON + timedelta(seconds=5), NOON + timedelta(minutes=14, seconds=1))
    found = read_series(db, window, 5 * MINUTE, sub)
    assert [(at, one.delivered) for at, one in found] == [
        (NOON, 3), (NOON + 5 * MINUTE, 0), (NOON + 10 * MINUTE, 4),
    ]  # fmt: skip
    assert found[0][1].histogram(Measure.IN_FLIGHT) == Histogram.of([1, 100, 100])
    assert found[2][1].dead_by_reason == {"http_5xx": 4}
    whole = read_figures(db, window, sub)
    assert whole.delivered == 7
    assert whole.histogram(Measure.IN_FLIGHT).total == 7
    assert fold(db, NOON + HOUR)
    folded = read_series(db, window, 5 * MINUTE, sub)
    assert [one.delivered for _, one in folded] == [7, 0, 0]


def test_only_the_durations_that_are_asked_for_are_read(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    waiting = Measure.WAITING_WORKER * WIDTH + 5
    add(db, sub, NOON, delivered=1, cells={8: 1, waiting: 2, in_flight(5): 3})
    window = Window(NOON, NOON + MINUTE)
    found = read_figures(db, window, sub, of=MEASURES[SegmentKind.WAITING])
    assert [one.kind for one in found.percentiles()] == ["waiting"]
    assert [(one.kind, one.count) for one in found.waits()] == [("worker", 2)]
    assert (found.delivered, found.dead_by_reason) == (1, {"http_4xx": 1})


def test_everything_together_is_the_sum_of_all_subscriptions(db: Connection[Any]) -> None:
    subs = [make_subscription(db) for _ in range(3)]
    for n, sub in enumerate(subs):
        deliver(db, make_deliveries(db, sub, n + 1))
    roll(db)
    now = read_clock(db)
    window = Window(now - HOUR, now + HOUR)
    with db.transaction(), acting_as(db, "dashboard"):
        each = read_figures_of_each(db, window, subs)
        whole = read_figures(db, window)
        assert now - read_as_of(db) < MINUTE
    assert [each[sub].delivered for sub in subs] == [1, 2, 3]
    assert whole.delivered == 6
    for parts in MEASURES.values():
        merged = sum((each[sub].histogram(*parts) for sub in subs), Histogram())
        assert merged == whole.histogram(*parts)


def test_postgresql_and_python_agree_on_buckets(db: Connection[Any]) -> None:
    query = sql.SQL(
        "SELECT least({last}, ceil(ln(greatest(1, ms / {smallest})) / {log_gamma}))::integer"
        " FROM unnest(%s::double precision[]) AS ms"
    ).format(last=LAST, smallest=SMALLEST_MS, log_gamma=LOG_GAMMA)
    chance = random.Random(3)
    durations = [0.0, SMALLEST_MS, 1e300, *map(value_of, range(800))]
    durations += [10 ** chance.uniform(-4, 12) for _ in range(2000)]
    found = [row[0] for row in db.execute(query, (durations,))]
    assert found == [bucket_of(ms) for ms in durations]


def test_every_number_means_one_thing() -> None:
    assert set(REASONS) == set(ErrorClass)
    assert len({OTHER_REASON, *REASONS.values()}) == len(REASONS) + 1
    assert max(REASONS.values()) < WIDTH
    assert set(BY_WAIT) == set(WaitedFor)
    assert set(BY_KIND) == set(SegmentKind) - {SegmentKind.FENCED}
    shown = [measure for parts in MEASURES.values() for measure in parts]
    assert sorted(shown) == sorted(Measure)
