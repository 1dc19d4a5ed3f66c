from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time
from fencepost.figures import Figures
from fencepost.filters import DeliveryFilter
from fencepost.histograms import RELATIVE_ERROR
from fencepost.objects import stats_json
from fencepost.states import State
from fencepost.store import operators
from fencepost.store.conditions import read_clock
from fencepost.store.deliveries import list_deliveries, read_trail
from fencepost.store.stats import read_stats
from fencepost.timeline import build
from journeys import acting_as, bury, deliver, fail
from rolling import roll

ACTOR = "user dana"


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def sub(db: Connection[Any]) -> UUID:
    """With two delivered at once, one at the second attempt, one dead, one discarded."""
    sub = make_subscription(db)
    deliver(db, make_deliveries(db, sub, 2))
    second = make_deliveries(db, sub)
    fail(db, second, delay=15)
    pass_time(db, 20)
    deliver(db, second)
    bury(db, make_deliveries(db, sub))
    (given_up,) = make_deliveries(db, sub)
    with db.transaction():
        operators.discard_delivery(db, given_up, actor=ACTOR)
    roll(db)
    return sub


@pytest.mark.usefixtures("sub")
def test_a_window_counts_what_was_received_and_what_happened(db: Connection[Any]) -> None:
    with db.transaction(), acting_as(db, "dashboard"):
        found = read_stats(db)
    assert found.received == 5
    assert found.states == {
        **dict.fromkeys(State, 0), State.DELIVERED: 3, State.DLQ: 2,
    }  # fmt: skip
    figures = found.figures
    assert (figures.attempts, figures.delivered, figures.failed) == (5, 3, 2)
    assert (figures.dead, figures.discarded, figures.replayed) == (1, 1, 0)
    assert figures.dead_by_reason == {"http_4xx": 1}
    assert figures.retry_rate == pytest.approx(1 / 5)
    assert figures.first_try_rate == pytest.approx(2 / 4)
    assert figures.tries_per_delivery == pytest.approx(5 / 4)
    assert (figures.lease_expiries, figures.fenced) == (0, 0)
    assert found.window.until - found.window.since == timedelta(hours=24)
    assert found.window.until - found.as_of < timedelta(minutes=1)


def test_one_subscription_is_counted_by_itself(db: Connection[Any], sub: UUID) -> None:
    other = make_subscription(db)
    deliver(db, make_deliveries(db, other))
    roll(db)
    found = read_stats(db, sub=other)
    assert (found.received, found.figures.attempts, found.figures.delivered) == (1, 1, 1)
    assert found.figures.dead == 0
    assert read_stats(db, sub=sub).received == 5
    assert read_stats(db).received == 6


@pytest.mark.usefixtures("sub")
def test_only_the_window_counts(db: Connection[Any]) -> None:
    pass_time(db, 7200)
    recent = read_stats(db, since=timedelta(hours=1))
    assert (recent.received, recent.figures) == (0, Figures())
    assert recent.figures.retry_rate is recent.figures.first_try_rate is None
    before = read_stats(db, until=timedelta(hours=1))
    assert (before.received, before.figures.attempts) == (5, 5)
    assert before.window.until - before.window.since == timedelta(hours=24)
    assert read_stats(db, since=read_clock(db) - timedelta(hours=3)).received == 5


def test_segments_take_as_long_as_in_the_timelines(db: Connection[Any], sub: UUID) -> None:
    waiting = make_deliveries(db, sub)
    pass_time(db, 25)
    fail(db, waiting, delay=5)
    db.execute("UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x'")
    pass_time(db, 60)
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL,"
        " resumed_at = fencepost_now()"
    )
    pass_time(db, 61)
    deliver(db, waiting)
    roll(db)
    expected: dict[str, list[int]] = defaultdict(list)
    now = read_clock(db)
    for delivery in list_deliveries(db, DeliveryFilter()).rows:
        timeline = build(read_trail(db, delivery.id), delivery=delivery, fenced=(), now=now)
        for segment in timeline.segments:
            if not segment.is_open and segment.kind != "parked":
                expected[segment.kind].append(segment.duration_ms)
    found = {one.kind: one for one in read_stats(db).figures.percentiles()}
    assert found.keys() == expected.keys() | {"total"}
    assert {"held", "sleeping", "waiting", "in_flight"} <= found.keys()
    for kind, durations in expected.items():
        assert found[kind].count == len(durations), kind
        longest = pytest.approx(max(durations), rel=RELATIVE_ERROR, abs=2)
        assert found[kind].max_ms == longest, kind
        assert found[kind].p50_ms <= found[kind].p95_ms <= found[kind].p99_ms <= found[kind].max_ms


def test_the_figures_are_shown_with_their_window(db: Connection[Any], sub: UUID) -> None:
    shown = stats_json(read_stats(db, sub=sub))
    assert shown["subscription_id"] == str(sub)
    assert shown["from"].endswith("Z")
    assert shown["states"]["DELIVERED"] == 3
    assert shown["dead_letter_reasons"] == {"http_4xx": 1}
    assert shown["waits"].keys() == {"worker"}
    assert set(shown["segments"]["in_flight"]) == {"count", "p50_ms", "p95_ms", "p99_ms", "max_ms"}
