from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time
from fencepost.filters import DeliveryFilter
from fencepost.objects import stats_json
from fencepost.states import State
from fencepost.store import operators
from fencepost.store.conditions import read_clock
from fencepost.store.deliveries import list_deliveries, read_trail
from fencepost.store.leases import reap_expired
from fencepost.store.stats import read_stats
from fencepost.timeline import build
from journeys import acting_as, bury, deliver, fail, lease

ACTOR = "user dana"


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


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
    operators.discard_delivery(db, given_up, actor=ACTOR)
    return sub


@pytest.mark.usefixtures("sub")
def test_a_window_counts_what_was_received_and_what_happened(db: Connection[Any]) -> None:
    with acting_as(db, "dashboard"):
        found = read_stats(db)
    assert found.received == 5
    assert found.states == {
        **dict.fromkeys(State, 0), State.DELIVERED: 3, State.DLQ: 2,
    }  # fmt: skip
    assert (found.attempts, found.delivered, found.failed) == (5, 3, 2)
    assert (found.dead_lettered, found.discarded, found.replayed) == (1, 1, 0)
    assert found.retry_rate == pytest.approx(1 / 4)
    assert found.first_try_rate == pytest.approx(2 / 4)
    assert (found.lease_expiries, found.fenced_writes) == (0, 0)
    assert found.until - found.since == timedelta(hours=24)


def test_one_subscription_is_counted_by_itself(db: Connection[Any], sub: UUID) -> None:
    other = make_subscription(db)
    deliver(db, make_deliveries(db, other))
    found = read_stats(db, sub=other)
    assert (found.received, found.attempts, found.delivered, found.dead_lettered) == (1, 1, 1, 0)
    assert read_stats(db, sub=sub).received == 5
    assert read_stats(db).received == 6


def test_expiries_and_fenced_writes_are_counted(db: Connection[Any]) -> None:
    made = make_deliveries(db, sub := make_subscription(db))
    lease(db, made)
    pass_time(db, 60)
    reap_expired(db, worker_id="b-1")
    db.execute(
        "INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write)"
        " VALUES (%s, 'a-1', 1, 'DELIVERED')",
        (made[0],),
    )
    for found in (read_stats(db), read_stats(db, sub=sub)):
        assert (found.lease_expiries, found.fenced_writes) == (1, 1)
    assert read_stats(db, sub=make_subscription(db)).fenced_writes == 0


@pytest.mark.usefixtures("sub")
def test_only_the_window_counts(db: Connection[Any]) -> None:
    pass_time(db, 7200)
    recent = read_stats(db, since=timedelta(hours=1))
    assert (recent.received, recent.attempts, recent.segments) == (0, 0, ())
    assert recent.retry_rate is recent.first_try_rate is None
    before = read_stats(db, until=timedelta(hours=1))
    assert before.received == 5
    assert before.until - before.since == timedelta(hours=24)
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
    expected: dict[str, list[int]] = defaultdict(list)
    now = read_clock(db)
    for delivery in list_deliveries(db, DeliveryFilter()).rows:
        timeline = build(read_trail(db, delivery.id), delivery=delivery, fenced=(), now=now)
        for segment in timeline.segments:
            if not segment.is_open and segment.kind != "parked":
                expected[segment.kind].append(segment.duration_ms)
    found = {one.kind: one for one in read_stats(db).segments}
    assert found.keys() == expected.keys()
    assert {"held", "sleeping", "waiting", "in_flight"} <= found.keys()
    for kind, durations in expected.items():
        assert found[kind].count == len(durations), kind
        assert found[kind].max_ms == pytest.approx(max(durations), abs=2), kind
        assert found[kind].p50_ms <= found[kind].p95_ms <= found[kind].p99_ms <= found[kind].max_ms


def test_the_figures_are_shown_with_their_window(db: Connection[Any], sub: UUID) -> None:
    shown = stats_json(read_stats(db, sub=sub))
    assert shown["subscription_id"] == str(sub)
    assert shown["from"].endswith("Z")
    assert shown["states"]["DELIVERED"] == 3
    assert set(shown["segments"]["in_flight"]) == {"count", "p50_ms", "p95_ms", "p99_ms", "max_ms"}
