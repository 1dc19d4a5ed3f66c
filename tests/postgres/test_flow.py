"""Limits over all workers, and order, as the claim keeps them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, stop_time
from fencepost.states import Cause, State
from fencepost.store.leases import Claimed, Claims, Room, attempt_many, claim_due, reap_expired
from fencepost.store.operators import replay_delivery
from fencepost.store.settlements import Settlement, settle_many

LEASE = timedelta(seconds=30)


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


def claim(db: Connection[Any], worker: str = "a", *, slots: int = 100, share: int = 100) -> Claims:
    return claim_due(db, worker_id=worker, lease=LEASE, room=Room(slots=slots, share=share))


def finish(db: Connection[Any], one: Claimed, cause: Cause = Cause.SUCCEED, **more: Any) -> None:
    worker = one.lease.worker_id
    attempt_many(db, [(one.lease, "u", 1)], worker_id=worker, lease=LEASE)
    if cause is Cause.RETRY:
        more.setdefault("delay", timedelta(hours=1))
    if cause is Cause.REJECT:
        more.setdefault("reason", "test")
    (row,) = settle_many(
        db, [Settlement(one.lease, State.ATTEMPTED, cause, **more)], worker_id=worker
    )
    assert row.settled


def in_order(db: Connection[Any], sub: UUID, count: int) -> list[UUID]:
    """Make deliveries of an ordered subscription, in this order."""
    ids = [make_deliveries(db, sub)[0] for _ in range(count)]
    for place, id_ in enumerate(ids):
        db.execute(
            "UPDATE webhook_deliveries SET position = %s, is_ordered = true WHERE id = %s",
            (place, id_),
        )
    return ids


def ids(found: Claims) -> list[UUID]:
    return [one.lease.delivery_id for one in found.claimed]


def test_max_in_flight_holds_over_all_workers(db: Connection[Any]) -> None:
    sub = make_subscription(db, max_in_flight=3)
    make_deliveries(db, sub, 10)
    first = claim(db, "a")
    assert len(first.claimed) == 3
    assert first.kept_back == {sub: "slot"}
    assert claim(db, "b").claimed == ()
    finish(db, first.claimed[0])
    assert len(claim(db, "b").claimed) == 1
    assert claim(db, "a").claimed == ()


def test_an_expired_lease_counts_until_it_is_taken_back(db: Connection[Any]) -> None:
    sub = make_subscription(db, max_in_flight=1)
    make_deliveries(db, sub, 2)
    assert len(claim(db, "a").claimed) == 1
    pass_time(db, 31)
    assert claim(db, "b").claimed == ()
    reap_expired(db, worker_id="b")
    assert len(claim(db, "b").claimed) == 1


@pytest.mark.parametrize("rate", [5, 50, 500])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_rate_holds_in_any_ten_seconds_over_all_workers(
    db: Connection[Any], rate: int, workers: int
) -> None:
    sub = make_subscription(db, rate_limit_per_second=rate)
    make_deliveries(db, sub, rate * 45)
    chance, starts = random.Random(rate * workers), []
    began = last = claim(db, slots=1).now
    while last - began < timedelta(seconds=30):
        # Whoever looks, looks when it was told to, or a little later.
        found = claim(db, f"w{chance.randrange(workers)}", slots=200)
        starts += [(last - began).total_seconds()] * len(found.claimed)
        wait = found.ready_in or (0.0 if found.claimed else 0.25)
        last += timedelta(seconds=min(0.25, max(0.02, wait)) * chance.uniform(1, 1.2))
        stop_time(db, last)
    for begin in range(2, 20):
        seen = sum(begin <= start < begin + 10 for start in starts)
        assert 0.9 * rate * 10 <= seen <= 1.1 * rate * 10


def test_what_a_limit_kept_back_says_why_it_waited(db: Connection[Any]) -> None:
    sub = make_subscription(db, rate_limit_per_second=1)
    make_deliveries(db, sub, 3)
    found = claim(db)
    assert found.kept_back == {sub: "rate"}
    assert found.ready_in is not None
    assert 0 < found.ready_in <= 1
    pass_time(db, 1.01)
    waited = {sub: ("rate", found.now)}
    (one,) = claim_due(
        db, worker_id="a", lease=LEASE, room=Room(slots=9, share=9, waited=waited)
    ).claimed
    row = db.execute(
        "SELECT detail ->> 'waited_for' FROM webhook_delivery_attempts"
        " WHERE delivery_id = %s AND state = 'LEASED'",
        (one.lease.delivery_id,),
    ).fetchone()
    assert row == ("rate",)


def test_limits_of_one_do_not_slow_another(db: Connection[Any]) -> None:
    limited = make_subscription(db, max_in_flight=1, rate_limit_per_second=1)
    free = make_subscription(db)
    make_deliveries(db, limited, 5)
    make_deliveries(db, free, 5)
    found = claim(db).claimed
    assert sum(one.subscription_id == free for one in found) == 5
    assert sum(one.subscription_id == limited for one in found) == 1


def test_two_workers_do_not_take_from_one_limit_at_once(db_url: str) -> None:
    with psycopg.connect(db_url) as a, psycopg.connect(db_url) as b:
        sub = make_subscription(a, max_in_flight=2)
        make_deliveries(a, sub, 10)
        a.commit()
        assert len(claim(a, "a").claimed) == 2
        assert claim(b, "b").claimed == ()  # the flow row is locked
        a.commit()
        assert claim(b, "b").claimed == ()  # and now the limit is reached


def test_an_ordered_subscription_goes_one_at_a_time_in_order(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    first, second, third = in_order(db, sub, 3)
    for expected in (first, second, third):
        found = claim(db)
        assert ids(found) == [expected]
        assert claim(db, "b").claimed == ()
        finish(db, found.claimed[0])
    assert claim(db).claimed == ()


def test_a_younger_one_in_flight_is_waited_for(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    first, second = in_order(db, sub, 2)
    db.execute("UPDATE webhook_deliveries SET position = 9 WHERE id = %s", (first,))
    (held,) = claim(db).claimed
    assert held.lease.delivery_id == second
    db.execute("UPDATE webhook_deliveries SET position = 0 WHERE id = %s", (first,))
    assert claim(db, "b").claimed == ()
    finish(db, held)
    assert ids(claim(db)) == [first]


def test_a_sleeping_head_blocks_and_a_dead_one_does_not(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    first, second = in_order(db, sub, 2)
    finish(db, claim(db).claimed[0], Cause.RETRY)
    found = claim(db)
    assert found.claimed == ()
    assert found.kept_back == {sub: "order"}
    pass_time(db, 3601)
    found = claim(db)
    assert ids(found) == [first]
    finish(db, found.claimed[0], Cause.REJECT)
    assert ids(claim(db)) == [second]


def test_a_replayed_dead_letter_re_enters_at_its_old_place(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    first, second, third = in_order(db, sub, 3)
    finish(db, claim(db).claimed[0], Cause.REJECT)
    held = claim(db).claimed[0]
    assert held.lease.delivery_id == second
    db.execute(
        "INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node)"
        " SELECT event_id, event_type, 'text/plain', 1, 'n' FROM webhook_deliveries"
    )
    replay_delivery(db, first, actor="dana", reason="mended")
    assert claim(db).claimed == ()
    finish(db, held)
    found = claim(db)
    assert ids(found) == [first]
    finish(db, found.claimed[0])
    assert ids(claim(db)) == [third]


def test_a_suspect_at_the_head_is_taken_by_who_may(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    first, _ = in_order(db, sub, 2)
    db.execute("UPDATE webhook_deliveries SET lane = 2 WHERE id = %s", (first,))
    room = Room(slots=9, share=9, may_take_suspect=False)
    assert claim_due(db, worker_id="a", lease=LEASE, room=room).claimed == ()
    (one,) = claim(db).claimed
    assert one.is_suspect


def test_a_subscription_that_becomes_ordered_takes_what_waits_along(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    made = make_deliveries(db, sub, 3)
    db.execute("UPDATE webhook_subscriptions SET ordered = true WHERE id = %s", (sub,))
    assert len(ids(claim(db))) == 1
    db.execute("UPDATE webhook_subscriptions SET ordered = false WHERE id = %s", (sub,))
    assert len(ids(claim(db))) == len(made) - 1
    assert db.execute("SELECT count(*) FROM webhook_flows").fetchone() == (0,)


def test_a_removed_ordered_subscription_is_emptied_without_order(db: Connection[Any]) -> None:
    sub = make_subscription(db, ordered=True)
    in_order(db, sub, 5)
    db.execute(
        "UPDATE webhook_subscriptions SET removed_at = fencepost_now() WHERE id = %s", (sub,)
    )
    assert len(claim(db).claimed) == 5
