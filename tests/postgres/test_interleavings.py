"""What happens when two things happen at the same moment, or one of them twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, trail
from fencepost.model import ErrorClass, Lease
from fencepost.states import Cause, State
from fencepost.store.leases import (
    FIRST,
    Claimed,
    Claims,
    Room,
    attempt_many,
    claim_due,
    reap_expired,
    renew_many,
)
from fencepost.store.settlements import (
    Settled,
    Settlement,
    note_health,
    pause_gone,
    settle_many,
)
from fencepost.store.subscriptions import resume_subscription
from worker.roster import Roster

LEASE = timedelta(seconds=30)


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


def claim(
    db: Connection[Any], worker: str = "a", *, slots: int = 100, share: int = 100, **more: Any
) -> tuple[Claimed, ...]:
    room = Room(slots=slots, share=share, **more)
    return claim_due(db, worker_id=worker, lease=LEASE, room=room).claimed


def attempt(db: Connection[Any], *claims: Claimed) -> dict[UUID, Any]:
    worker = claims[0].lease.worker_id
    return attempt_many(
        db, [(one.lease, "http://r/…", 1) for one in claims], worker_id=worker, lease=LEASE
    )


def failed(lease: Lease, **more: Any) -> Settlement:
    """The outcome of a request that may be tried again in 15 s."""
    told: dict[str, Any] = {"status": 503, "error": ErrorClass.HTTP_5XX, **more}
    return Settlement(lease, State.ATTEMPTED, Cause.RETRY, delay=timedelta(seconds=15), **told)


def delivered(lease: Lease) -> Settlement:
    return Settlement(lease, State.ATTEMPTED, Cause.SUCCEED, status=200, latency_ms=1)


def settle(db: Connection[Any], *settlements: Settlement) -> list[Settled]:
    return settle_many(db, settlements, worker_id=settlements[0].lease.worker_id)


def fenced(db: Connection[Any]) -> list[tuple[str, int, str]]:
    return db.execute(
        "SELECT worker_id, fencing_token, would_write FROM webhook_fenced_writes ORDER BY id"
    ).fetchall()


# fairness


class Traffic:
    """A worker's claims, with as many slots free each time as the test says."""

    def __init__(self, db: Connection[Any], *, share: int) -> None:
        self._db, self._share = db, share
        self._cursor, self._chance = FIRST, random.Random(1)

    def claim(self, slots: int) -> Sequence[Claimed]:
        found = claim_due(
            self._db,
            worker_id="a",
            lease=LEASE,
            room=Room(slots=slots, share=self._share),
            cursor=self._cursor,
            turn=self._chance.randrange(5),
        )
        self._cursor = found.cursor
        return found.claimed


@pytest.mark.parametrize("slots", [1, 4, 8])
def test_backlogs_of_several_do_not_starve_the_last(db: Connection[Any], slots: int) -> None:
    """Slots come free a few at a time: whoever is first in the scan must not get them all."""
    subs = [make_subscription(db) for _ in range(4)]
    for sub in subs:
        make_deliveries(db, sub, 200)
    traffic = Traffic(db, share=32)
    got = Counter(one.subscription_id for _ in range(20) for one in traffic.claim(slots))
    assert set(got) == set(subs)
    assert max(got.values()) - min(got.values()) <= 2 * slots


def test_replays_get_their_fifth_also_when_slots_are_what_is_short(db: Connection[Any]) -> None:
    subs = [make_subscription(db) for _ in range(5)]
    lanes: dict[UUID, int] = {}
    for sub in subs:
        for lane in (0, 1):
            lanes |= dict.fromkeys(make_deliveries(db, sub, 100, lane=lane), lane)
    traffic = Traffic(db, share=32)
    got: Counter[tuple[UUID, int]] = Counter()
    for _ in range(200):
        got.update((one.subscription_id, lanes[one.lease.delivery_id]) for one in traffic.claim(1))
    for sub in subs:
        live, replays = got[sub, 0], got[sub, 1]
        assert live + replays >= 30
        assert replays >= (live + replays) // 12
        assert live >= replays


def test_a_suspect_is_part_of_its_subscriptions_share(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub, 5)
    make_deliveries(db, sub, lane=2)
    assert len(claim(db, slots=10, share=2)) == 2


# one delivery, two leases of one process


def twice(db: Connection[Any]) -> tuple[Lease, Lease]:
    """One process holds a delivery under two tokens: it slept, and reaped itself."""
    make_deliveries(db, make_subscription(db))
    (old,) = claim(db)
    attempt(db, old)
    pass_time(db, 31)
    reap_expired(db, worker_id="a")
    (new,) = claim(db)
    attempt(db, new)
    return old.lease, new.lease


def test_a_heartbeat_tells_the_lost_lease_from_the_one_that_followed(db: Connection[Any]) -> None:
    old, new = twice(db)
    assert renew_many(db, [old, new], worker_id="a", lease=LEASE) == {old}


def test_a_lease_found_lost_leaves_its_successor_alone() -> None:
    board = Roster(concurrency=4, share=4, backlog=4, clock=lambda: 0.0)
    id_, sub = uuid4(), uuid4()
    old, new = (
        Claimed(Lease(id_, "a", token), uuid4(), "x", sub, 0, 0, 5, None, is_suspect=False)
        for token in (1, 2)
    )
    now = datetime(2026, 11, 30, tzinfo=UTC)
    found = Claims(
        (old, new), now, visited=1, cursor=FIRST, kept_back={}, ready_in=None, due_in=None
    )
    board.take(found, until=9)
    assert board.lose([old.lease]) == [old.lease]
    assert board.to_renew() == [new.lease]


def test_two_outcomes_of_one_delivery_in_one_batch_are_told_apart(db: Connection[Any]) -> None:
    old, new = twice(db)
    first, second = settle(db, delivered(old), delivered(new))
    assert (first.settled, first.fenced) == (False, True)
    assert (second.settled, second.fenced) == (True, False)
    assert fenced(db) == [("a", 1, "DELIVERED")]


@pytest.mark.parametrize("cause", [Cause.RETRY, Cause.EXHAUST])
def test_what_its_own_reaper_wrote_is_no_outcome_of_a_worker(
    db: Connection[Any], cause: Cause
) -> None:
    (id_,) = make_deliveries(
        db, make_subscription(db), max_attempts=1 if cause is Cause.EXHAUST else 5
    )
    (old,) = claim(db)
    attempt(db, old)
    pass_time(db, 31)
    reap_expired(db, worker_id="a")
    late = (
        failed(old.lease)
        if cause is Cause.RETRY
        else Settlement(old.lease, State.ATTEMPTED, cause, reason="x", error=ErrorClass.TIMEOUT)
    )
    told = trail(db, id_)
    (row,) = settle(db, late)
    assert (row.settled, row.fenced) == (False, True)
    assert trail(db, id_) == told
    assert len(fenced(db)) == 1
    # Tried again, because the answer to that was lost: noted once.
    settle(db, late)
    assert len(fenced(db)) == 1


def test_c22_the_same_outcome_twice_in_one_batch_costs_no_other(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    ids = make_deliveries(db, sub, 3)
    claims = claim(db)
    attempt(db, *claims)
    some = [delivered(one.lease) for one in claims]
    rows = settle(db, some[0], *some)
    assert all(row.settled for row in rows)
    for id_ in ids:
        assert trail(db, id_)[-2:] == ["ATTEMPTED", "DELIVERED"]
    assert fenced(db) == []


def test_what_waits_for_a_removed_subscription_is_not_waited_for(db: Connection[Any]) -> None:
    sub, other = make_subscription(db), make_subscription(db)
    later = "fencepost_now() + interval '20 hours'"
    ids = {make_deliveries(db, sub, due=later, lane=lane)[0] for lane in (0, 1, 2)}
    make_deliveries(db, other, due=later)
    assert claim(db) == ()
    db.execute(
        "UPDATE webhook_subscriptions SET removed_at = fencepost_now() WHERE id = %s", (sub,)
    )
    assert {one.lease.delivery_id for one in claim(db)} == ids


# a subscription that somebody has in hand


def test_a_locked_subscription_holds_up_no_outcome_and_is_paused_afterwards(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as conn, psycopg.connect(db_url) as operator:
        conn.execute("SET lock_timeout = '2s'")
        gone, well = make_subscription(conn), make_subscription(conn)
        make_deliveries(conn, gone)
        make_deliveries(conn, well)
        claims = claim(conn)
        attempt(conn, *claims)
        operator.execute("SELECT FROM webhook_subscriptions WHERE id = %s FOR UPDATE", (gone,))
        rows = settle(
            conn,
            *(
                Settlement(
                    one.lease, State.ATTEMPTED, Cause.REJECT, status=410, reason="x", pauses=True
                )
                if one.subscription_id == gone
                else delivered(one.lease)
                for one in claims
            ),
        )
        assert [row.settled for row in rows] == [True, True]
        assert {row.still_to_pause for row in rows} == {gone, None}
        assert pause_gone(conn, [gone], worker_id="a") == {gone}
        operator.rollback()
        assert pause_gone(conn, [gone], worker_id="a") == set()
        assert pause_gone(conn, [gone], worker_id="a") == set()
        found = conn.execute("SELECT id, state FROM webhook_subscriptions ORDER BY id").fetchall()
        assert found == [(gone, "paused"), (well, "active")]
        row = conn.execute("SELECT count(*) FROM webhook_operator_actions").fetchone()
        assert row == (1,)


def test_two_workers_that_hear_410_from_the_same_two_never_wait_for_each_other(
    db_url: str,
) -> None:
    with psycopg.connect(db_url) as a, psycopg.connect(db_url) as b:
        for sub in [make_subscription(a) for _ in range(2)]:
            make_deliveries(a, sub, 2)
        a.commit()
        for conn in (a, b):
            conn.execute("SET lock_timeout = '2s'")
        for conn, name in ((a, "a"), (b, "b")):
            claims = claim(conn, name, share=1)
            attempt(conn, *claims)
            conn.commit()
            gone = [
                Settlement(
                    one.lease, State.ATTEMPTED, Cause.REJECT, status=410, reason="x", pauses=True
                )
                for one in claims
            ]
            # The first has not committed yet when the second settles.
            assert all(row.settled for row in settle(conn, *gone))
        a.commit()
        b.commit()
        row = a.execute("SELECT count(*) FROM webhook_operator_actions").fetchone()
        assert row == (2,)


def test_a_failure_is_noted_beside_a_resume_that_has_not_committed(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as conn, psycopg.connect(db_url) as operator:
        conn.execute("SET lock_timeout = '2s'")
        sub, other = make_subscription(conn), make_subscription(conn)
        note_health(conn, failing=[sub], succeeding=[])
        conn.execute("UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x'"
                     " WHERE id = %s", (sub,))  # fmt: skip
        resume_subscription(operator, sub, actor="dana")
        note_health(conn, failing=[sub, other], succeeding=[])
        note_health(conn, failing=[], succeeding=[sub])
        operator.commit()
        rows = conn.execute("SELECT subscription_id FROM webhook_failing_subscriptions").fetchall()
        assert rows == [(other,)]
