"""Claims, heartbeats, attempts, settlements and the reaper, each against a real server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row

from factories import make_deliveries, make_subscription, pass_time, trail
from fencepost.model import ErrorClass, Lease
from fencepost.states import Cause, State
from fencepost.store.leases import (
    FIRST,
    Claimed,
    Room,
    attempt_many,
    claim_due,
    reap_expired,
    renew_many,
)
from fencepost.store.settlements import Settlement, note_health, pause_failing, settle_many

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


def settle(db: Connection[Any], lease: Lease, cause: Cause, **more: Any) -> tuple[bool, bool]:
    state = State.LEASED if cause in (Cause.REFUSE, Cause.RELEASE) else State.ATTEMPTED
    if cause in (Cause.RETRY, Cause.RELEASE):
        more.setdefault("delay", timedelta(seconds=15))
    if cause in (Cause.EXHAUST, Cause.REJECT, Cause.REFUSE):
        more.setdefault("reason", "test")
    (row,) = settle_many(db, [Settlement(lease, state, cause, **more)], worker_id=lease.worker_id)
    return row.settled, row.fenced


def row_of(db: Connection[Any], id_: UUID) -> dict[str, Any]:
    with db.cursor(row_factory=dict_row) as cur:
        row = cur.execute("SELECT * FROM webhook_deliveries WHERE id = %s", (id_,)).fetchone()
    assert row is not None
    return row


def fenced(db: Connection[Any]) -> list[tuple[str, int, str]]:
    return db.execute(
        "SELECT worker_id, fencing_token, would_write FROM webhook_fenced_writes ORDER BY id"
    ).fetchall()


def test_a_claim_takes_what_is_due_once_and_raises_the_token(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (due,) = make_deliveries(db, sub)
    make_deliveries(db, sub, due="fencepost_now() + interval '1 hour'")
    (claimed,) = claim(db)
    assert claimed.lease == Lease(due, "a", 1)
    assert claim(db, "b") == ()
    assert trail(db, due) == ["RECEIVED", "ENCRYPTED", "LEASED"]


def test_a_claim_takes_no_more_than_can_start(db: Connection[Any]) -> None:
    first, second = make_subscription(db), make_subscription(db)
    make_deliveries(db, first, 50)
    make_deliveries(db, second, 50)
    got = Counter(one.subscription_id for one in claim(db, slots=20, share=15))
    assert sorted(got.values()) == [5, 15]
    got = Counter(one.subscription_id for one in claim(db, slots=50, share=15, held={first: 12}))
    assert got == {first: 3, second: 15}


def test_the_cursor_goes_round_so_that_the_last_subscription_is_served(
    db: Connection[Any],
) -> None:
    subs = sorted(make_subscription(db) for _ in range(5))
    for sub in subs:
        make_deliveries(db, sub, 10)
    cursor, seen = FIRST, []
    for _ in range(3):
        found = claim_due(
            db, worker_id="a", lease=LEASE, room=Room(slots=100, share=1), cursor=cursor, visits=2
        )
        cursor = found.cursor
        seen += [one.subscription_id for one in found.claimed]
    assert seen == subs
    assert cursor == FIRST


def test_backlogs_that_fill_all_slots_still_take_turns(db: Connection[Any]) -> None:
    subs = [make_subscription(db) for _ in range(5)]
    for sub in subs:
        make_deliveries(db, sub, 40)
    held: Counter[UUID] = Counter()
    served: Counter[UUID] = Counter()
    cursor = FIRST
    for _ in range(20):
        room = Room(slots=4 - held.total(), share=2, held=dict(held))
        found = claim_due(db, worker_id="a", lease=LEASE, room=room, cursor=cursor)
        cursor = found.cursor
        held.update(one.subscription_id for one in found.claimed)
        served.update(one.subscription_id for one in found.claimed)
        if held.total() == 4:
            held -= Counter([min(held)])  # the first in the order of the scan ends first
    assert min(served[sub] for sub in subs) >= max(served.values()) // 2


def test_a_million_of_one_subscription_would_not_delay_another(db: Connection[Any]) -> None:
    big, small = make_subscription(db), make_subscription(db)
    make_deliveries(db, big, 5_000, due="fencepost_now() - interval '1 hour'")
    (late,) = make_deliveries(db, small)
    got = claim(db, slots=64, share=32)
    assert late in {one.lease.delivery_id for one in got}
    assert len(got) == 33


def test_paused_ones_are_held_and_say_so_when_resumed(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (id_,) = make_deliveries(db, sub)
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x' WHERE id = %s",
        (sub,),
    )
    assert claim(db) == ()
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL,"
        " resumed_at = fencepost_now() WHERE id = %s",
        (sub,),
    )
    assert len(claim(db)) == 1
    assert waited_for(db, id_) == "paused"


def waited_for(db: Connection[Any], id_: UUID) -> str:
    row = db.execute(
        "SELECT detail ->> 'waited_for' FROM webhook_delivery_attempts"
        " WHERE delivery_id = %s AND state = 'LEASED' ORDER BY seq DESC LIMIT 1",
        (id_,),
    ).fetchone()
    assert row is not None
    return str(row[0])


def test_a_wait_names_what_it_waited_for(db: Connection[Any]) -> None:
    sub, other = make_subscription(db), make_subscription(db)
    (first,) = make_deliveries(db, sub)
    claim(db)
    assert waited_for(db, first) == "worker"
    (second,), (third,) = make_deliveries(db, sub), make_deliveries(db, other)
    row = db.execute("SELECT fencepost_now()").fetchone()
    assert row is not None
    claim(db, waited={sub: ("slot", row[0])})
    assert waited_for(db, second) == "slot"
    assert waited_for(db, third) == "worker"
    (fourth,) = make_deliveries(db, other)
    row = db.execute("SELECT fencepost_now()").fetchone()
    assert row is not None
    claim(db, slots_full_at=row[0])
    assert waited_for(db, fourth) == "slot"


def test_those_of_a_removed_subscription_are_claimed_even_when_it_is_paused(
    db: Connection[Any],
) -> None:
    sub = make_subscription(db, state="paused", paused_reason="x")
    make_deliveries(db, sub)
    assert claim(db) == ()
    db.execute(
        "UPDATE webhook_subscriptions SET removed_at = fencepost_now() WHERE id = %s", (sub,)
    )
    assert len(claim(db)) == 1


@pytest.mark.parametrize(("turn", "replays"), [(0, 2), (4, 2)])
def test_replays_get_a_fifth_and_the_live_ones_the_rest(
    db: Connection[Any], turn: int, replays: int
) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub, 20)
    lane = set(make_deliveries(db, sub, 20, lane=1))
    found = claim_due(
        db, worker_id="a", lease=LEASE, room=Room(slots=10, share=10), turn=turn
    ).claimed
    assert len(found) == 10
    assert len({one.lease.delivery_id for one in found} & lane) == replays


def test_one_slot_goes_to_a_replay_in_one_of_five_turns(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub, 20)
    lane = set(make_deliveries(db, sub, 20, lane=1))
    taken = [
        claim_due(db, worker_id="a", lease=LEASE, room=Room(slots=1, share=1), turn=turn).claimed
        for turn in range(5)
    ]
    assert [len(some) for some in taken] == [1] * 5
    assert sum(some[0].lease.delivery_id in lane for some in taken) == 1


def test_replays_alone_get_all_the_room(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub, 20, lane=1)
    assert len(claim(db, slots=10, share=10)) == 10


def test_a_worker_takes_one_suspect_at_a_time(db: Connection[Any]) -> None:
    for _ in range(3):
        make_deliveries(db, make_subscription(db), 3, lane=2)
    (suspect,) = claim(db)
    assert suspect.is_suspect
    assert claim(db, may_take_suspect=False) == ()
    assert len(claim(db, "b")) == 1


def test_two_workers_never_claim_the_same(db_url: str) -> None:
    with psycopg.connect(db_url) as mine, psycopg.connect(db_url) as theirs:
        ids = set(make_deliveries(mine, make_subscription(mine), 40))
        mine.commit()
        first = {one.lease.delivery_id for one in claim(mine, slots=25)}
        second = {one.lease.delivery_id for one in claim(theirs, "b", slots=100)}
    assert not first & second
    assert first | second == ids


def test_an_attempt_is_counted_renewed_and_written_before_its_request(
    db: Connection[Any],
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db)
    row = attempt(db, claimed)[id_]
    assert row.attempt_count == 1
    after = row_of(db, id_)
    assert after["current_state"] == "ATTEMPTED"
    assert after["first_attempt_at"] == row.first_attempt_at == row.now
    assert after["lease_expires_at"] == row.now + LEASE
    assert trail(db, id_)[-1] == "ATTEMPTED"


def test_a_repeated_attempt_is_neither_counted_again_nor_called_fenced(
    db: Connection[Any],
) -> None:
    make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db)
    assert len(attempt(db, claimed)) == 1
    (again,) = attempt(db, claimed).values()
    assert again.is_repeat
    assert row_of(db, again.id)["attempt_count"] == 1
    assert fenced(db) == []


@pytest.mark.parametrize(
    ("cause", "more", "rows"),
    [
        (Cause.SUCCEED, {"status": 200, "latency_ms": 12}, ["DELIVERED"]),
        (Cause.RETRY, {"status": 503, "error": ErrorClass.HTTP_5XX}, ["FAILED", "RETRIED"]),
        (Cause.EXHAUST, {"error": ErrorClass.TIMEOUT}, ["FAILED", "DLQ"]),
        (Cause.REJECT, {"status": 404, "error": ErrorClass.HTTP_4XX}, ["FAILED", "DLQ"]),
    ],
)
def test_an_outcome_moves_and_is_told(
    db: Connection[Any], cause: Cause, more: dict[str, Any], rows: list[str]
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db)
    attempt(db, claimed)
    assert settle(db, claimed.lease, cause, **more) == (True, False)
    assert trail(db, id_)[4:] == rows
    after = row_of(db, id_)
    assert after["current_state"] == rows[-1]
    assert after["worker_id"] is None
    assert after["last_status"] == more.get("status")
    # Written again, because the answer to the first try was lost: known, not fenced.
    assert settle(db, claimed.lease, cause, **more) == (False, False)
    assert trail(db, id_)[4:] == rows
    assert fenced(db) == []


def test_a_release_uses_no_attempt_and_a_fault_of_ours_is_given_back(
    db: Connection[Any],
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db)
    settle(db, claimed.lease, Cause.RELEASE, delay=timedelta(), reason="draining")
    assert row_of(db, id_)["attempt_count"] == 0
    (claimed,) = claim(db)
    assert claimed.lease.fencing_token == 2
    attempt(db, claimed)
    settle(db, claimed.lease, Cause.RETRY, is_ours=True, error=ErrorClass.LOCAL_ERROR)
    after = row_of(db, id_)
    assert (after["attempt_count"], after["budget_start"]) == (1, 1)


def test_a_410_pauses_its_subscription_once_and_says_why(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub, 3)
    claims = claim(db)
    attempt(db, *claims)
    rows = settle_many(
        db,
        [
            Settlement(
                one.lease, State.ATTEMPTED, Cause.REJECT, status=410, reason="x", pauses=True
            )
            for one in claims
        ],
        worker_id="a",
    )
    assert all(row.settled for row in rows)
    found = db.execute(
        "SELECT state, paused_reason FROM webhook_subscriptions WHERE id = %s", (sub,)
    ).fetchone()
    assert found is not None
    assert found[0] == "paused"
    assert "410" in found[1]
    notes = db.execute(
        "SELECT count(*) FROM webhook_operator_actions WHERE target = %s", (str(sub),)
    ).fetchone()
    assert notes == (1,)


STALE = [
    (Cause.SUCCEED, "DELIVERED"),
    (Cause.RETRY, "RETRIED"),
    (Cause.EXHAUST, "DLQ"),
    (Cause.RELEASE, "RETRIED"),
    (Cause.REFUSE, "DLQ"),
]


@pytest.mark.parametrize("has_moved_on", [False, True])
@pytest.mark.parametrize(("cause", "would"), STALE)
def test_a_stale_worker_writes_nothing_and_is_noted(
    db: Connection[Any], cause: Cause, would: str, *, has_moved_on: bool
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (old,) = claim(db, "a")
    if cause not in (Cause.RELEASE, Cause.REFUSE):
        attempt(db, old)
    pass_time(db, 31)
    reap_expired(db, worker_id="b")
    (new,) = claim(db, "b")
    if has_moved_on:
        attempt(db, new)
    before, told = row_of(db, id_), trail(db, id_)
    assert settle(db, old.lease, cause) == (False, True)
    assert all(row.is_repeat for row in attempt(db, old).values())  # nothing may be sent
    assert renew_many(db, [old.lease], worker_id="a", lease=LEASE) == {old.lease}
    assert row_of(db, id_) == before
    assert trail(db, id_) == told
    assert fenced(db) == [("a", 1, would)]
    assert new.lease.fencing_token == 2


def test_the_same_worker_with_an_older_token_is_as_stale_as_another(db: Connection[Any]) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (old,) = claim(db, "a")
    attempt(db, old)
    pass_time(db, 31)
    reap_expired(db, worker_id="a")
    (new,) = claim(db, "a")
    attempt(db, new)
    assert settle(db, old.lease, Cause.SUCCEED) == (False, True)
    assert row_of(db, id_)["current_state"] == "ATTEMPTED"


@pytest.mark.parametrize(("worker", "token"), [("b", 2), ("a", 1), ("a", 3)])
@pytest.mark.parametrize("attempted", [False, True])
def test_each_part_of_a_lease_is_asked_for(
    db: Connection[Any], worker: str, token: int, *, attempted: bool
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (first,) = claim(db, "a")
    settle(db, first.lease, Cause.RELEASE, delay=timedelta())
    (held,) = claim(db, "a")
    assert held.lease.fencing_token == 2
    if attempted:
        attempt(db, held)
    before = row_of(db, id_)
    wrong = Lease(id_, worker, token)
    assert attempt_many(db, [(wrong, "u", 1)], worker_id=worker, lease=LEASE) == {}
    assert renew_many(db, [wrong], worker_id=worker, lease=LEASE) == {wrong}
    causes = (Cause.SUCCEED, Cause.RETRY) if attempted else (Cause.RELEASE, Cause.REFUSE)
    for cause in causes:
        assert settle(db, wrong, cause)[0] is False
    assert row_of(db, id_) == before


def test_a_holder_that_mistakes_its_state_writes_nothing(db: Connection[Any]) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (held,) = claim(db)
    assert settle(db, held.lease, Cause.SUCCEED) == (False, True)
    attempt(db, held)
    assert settle(db, held.lease, Cause.RELEASE)[0] is False
    assert trail(db, id_)[-1] == "ATTEMPTED"


def test_a_410_after_the_removal_pauses_nothing(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub)
    (held,) = claim(db)
    attempt(db, held)
    db.execute("UPDATE webhook_subscriptions SET removed_at = fencepost_now()")
    settle(db, held.lease, Cause.REJECT, status=410, pauses=True)
    assert db.execute(
        "SELECT state FROM webhook_subscriptions WHERE id = %s", (sub,)
    ).fetchone() == ("active",)


def test_an_operators_pause_keeps_its_reason(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    make_deliveries(db, sub)
    (held,) = claim(db)
    attempt(db, held)
    db.execute("UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'by dana'")
    settle(db, held.lease, Cause.REJECT, status=410, pauses=True)
    assert db.execute(
        "SELECT paused_reason FROM webhook_subscriptions WHERE id = %s", (sub,)
    ).fetchone() == ("by dana",)


def test_a_failure_after_five_days_without_a_success_pauses_once(db: Connection[Any]) -> None:
    failing, mended, fresh = ids = [make_subscription(db) for _ in range(3)]
    note_health(db, failing=[failing, mended], succeeding=[])
    pass_time(db, 4 * 86_400)
    note_health(db, failing=ids, succeeding=[])
    note_health(db, failing=[], succeeding=[mended])
    assert pause_failing(db, ids, worker_id="a") == []
    pass_time(db, 5 * 86_400 + 1)
    assert pause_failing(db, ids, worker_id="a") == [str(failing)]
    assert pause_failing(db, ids, worker_id="a") == []
    states = dict(db.execute("SELECT id, state FROM webhook_subscriptions").fetchall())
    assert {id_: states[id_] for id_ in ids} == {
        failing: "paused", mended: "active", fresh: "active",
    }  # fmt: skip


def test_one_failure_and_then_silence_pauses_nothing(db: Connection[Any]) -> None:
    quiet, other = make_subscription(db), make_subscription(db)
    note_health(db, failing=[quiet], succeeding=[])
    pass_time(db, 6 * 86_400)
    assert pause_failing(db, [other], worker_id="a") == []


def test_one_paused_by_hand_is_not_paused_again(db: Connection[Any]) -> None:
    sub = make_subscription(db, state="paused", paused_reason="by dana")
    note_health(db, failing=[sub], succeeding=[])
    pass_time(db, 6 * 86_400)
    assert pause_failing(db, [sub], worker_id="a") == []


def test_a_heartbeat_extends_both_held_states_and_finds_what_is_lost(
    db: Connection[Any],
) -> None:
    make_deliveries(db, make_subscription(db), 2)
    first, second = claim(db)
    attempt(db, second)
    leases = [first.lease, second.lease]
    pass_time(db, 20)
    assert renew_many(db, leases, worker_id="a", lease=LEASE) == frozenset()
    pass_time(db, 45)
    assert reap_expired(db, worker_id="b") == []
    pass_time(db, 51)
    assert len(reap_expired(db, worker_id="b")) == 2
    assert renew_many(db, leases, worker_id="a", lease=LEASE) == set(leases)


def test_an_expired_lease_still_counts_until_a_reaper_has_taken_it(db: Connection[Any]) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db)
    attempt(db, claimed)
    pass_time(db, 300)
    assert settle(db, claimed.lease, Cause.SUCCEED) == (True, False)
    assert row_of(db, id_)["current_state"] == "DELIVERED"


def test_an_expiry_names_the_old_holder_and_the_reaper(db: Connection[Any]) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    (claimed,) = claim(db, "a")
    attempt(db, claimed)
    pass_time(db, 31)
    (row,) = reap_expired(db, worker_id="b")
    assert (row.id, row.holder, row.from_state, row.current_state) == (
        id_, "a", "ATTEMPTED", "RETRIED",
    )  # fmt: skip
    rows = db.execute(
        "SELECT state, worker_id, fencing_token FROM webhook_delivery_attempts"
        " WHERE delivery_id = %s AND seq > 4 ORDER BY seq",
        (id_,),
    ).fetchall()
    assert rows == [("LEASE_EXPIRED", "a", 1), ("RETRIED", "b", 1)]
    after = row_of(db, id_)
    assert (after["attempt_count"], after["fencing_token"]) == (1, 1)


def expire(db: Connection[Any], seconds: float, *, attempted: bool) -> str:
    (claimed,) = claim(db)
    if attempted:
        attempt(db, claimed)
    pass_time(db, seconds)
    (row,) = reap_expired(db, worker_id="r")
    return row.current_state


def test_a_crash_before_the_request_uses_no_attempt_and_ends_as_a_crash_loop(
    db: Connection[Any],
) -> None:
    (id_,) = make_deliveries(db, make_subscription(db))
    states = [expire(db, 31 * n, attempted=False) for n in range(1, 6)]
    assert states == ["RETRIED"] * 4 + ["DLQ"]
    after = row_of(db, id_)
    assert (after["attempt_count"], after["dead_reason"]) == (0, "crash_loop")


def test_a_spent_budget_ends_an_expiry_and_says_which_kind(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    (id_,) = make_deliveries(db, sub, max_attempts=2)
    assert [expire(db, 31 * n, attempted=True) for n in (1, 2)] == ["RETRIED", "DLQ"]
    assert row_of(db, id_)["dead_reason"] == "lease_expired"
    (id_,) = make_deliveries(db, sub, max_attempts=3)
    assert [expire(db, 100 + 31 * n, attempted=True) for n in (1, 2, 3)] == [
        "RETRIED",
        "RETRIED",
        "DLQ",
    ]
    assert row_of(db, id_)["dead_reason"] == "crash_loop"


def test_an_outcome_clears_the_suspicion(db: Connection[Any]) -> None:
    (id_,) = make_deliveries(db, make_subscription(db), max_attempts=9)
    expire(db, 31, attempted=True)
    expire(db, 62, attempted=True)
    assert row_of(db, id_)["lane"] == 2
    (claimed,) = claim(db)
    assert claimed.is_suspect
    attempt(db, claimed)
    settle(db, claimed.lease, Cause.RETRY)
    after = row_of(db, id_)
    assert (after["lane"], after["expiries"]) == (0, 0)


def test_the_reaper_works_through_any_number_in_batches(db: Connection[Any]) -> None:
    make_deliveries(db, make_subscription(db), 450)
    claim(db, slots=450, share=450)
    pass_time(db, 31)
    sizes = [len(reap_expired(db, worker_id="r", batch=200)) for _ in range(4)]
    assert sizes == [200, 200, 50, 0]


def test_one_fenced_write_is_noted_once(db: Connection[Any]) -> None:
    lease = Lease(uuid4(), "a", 1)
    for _ in range(3):
        settle(db, lease, Cause.SUCCEED)
    assert len(fenced(db)) == 1
