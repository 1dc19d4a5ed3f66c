"""Bulk replays. A draft's snapshot holds what is committed, so all of these commit."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, stop_time, trail
from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.objects import replay_json
from fencepost.records import Replay
from fencepost.states import Cause, State
from fencepost.store import operators, replays, requeue
from fencepost.store.actions import list_actions
from fencepost.store.deliveries import get_delivery, list_deliveries, read_trail
from fencepost.store.leases import reap_expired
from fencepost.store.settlements import Settlement, settle_many
from journeys import acting_as, attempt, bury, deliver, fail, lease
from waiting import eventually
from worker.link import Link
from worker.replay import IDLE_SECONDS, ReplayStep

DANA, EVE = "user dana", "user eve"


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url) as conn:
        yield conn


@pytest.fixture
def step(db_url: str) -> Iterator[ReplayStep]:
    link = Link(db_url, name="test replay")
    yield make_step(link)
    link.close()


def make_step(link: Link) -> ReplayStep:
    """A step whose clock runs a minute at each look: outcomes are counted at once."""
    minutes = itertools.count()
    return ReplayStep(
        link, worker_id="w-1", on_new=lambda: None, clock=lambda: 60.0 * next(minutes)
    )


def draft(
    db: Connection[Any],
    *,
    rate: float | None = None,
    newest_first: bool = False,
    **params: list[str],
) -> Replay:
    db.commit()
    with acting_as(db, "dashboard"):
        found = replays.draft_replay(
            db, DeliveryFilter.from_params(params), reason="mended", rate=rate,
            newest_first=newest_first, actor=DANA,
        )  # fmt: skip
    db.commit()
    return found


def start(db: Connection[Any], found: Replay, **more: Any) -> Replay:
    with acting_as(db, "dashboard"):
        started = replays.start_replay(db, found.id, actor=EVE, **more)
    db.commit()
    return started


def finish(db: Connection[Any], step: ReplayStep, found: Replay) -> Replay:
    now = found
    for _ in range(50):
        step()
        now = replays.get_replay(db, found.id)
        if now.state == "DONE":
            return now
    raise AssertionError(now)


def make_due(db: Connection[Any], ids: list[UUID]) -> list[UUID]:
    """Let these be due, and no others."""
    db.execute(
        "UPDATE webhook_deliveries"
        " SET next_attempt_at"
        "   = now() + CASE WHEN id = ANY (%s) THEN '-1 h'::interval ELSE '1 h' END"
        " WHERE worker_id IS NULL AND next_attempt_at IS NOT NULL",
        (ids,),
    )
    return ids


def states(db: Connection[Any], ids: list[UUID]) -> list[State]:
    return [get_delivery(db, one).current_state for one in ids]


# drafts


def test_a_draft_counts_exactly_and_touches_nothing(db: Connection[Any]) -> None:
    sub, gone = make_subscription(db), make_subscription(db)
    dead = make_deliveries(db, sub, 6)
    bury(db, dead)
    bury(db, lost := make_deliveries(db, gone, 2))
    deliver(db, done := make_deliveries(db, sub, 3))
    db.execute("UPDATE webhook_subscriptions SET removed_at = now() WHERE id = %s", (gone,))
    db.execute(
        "INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node, erased_at)"
        " SELECT event_id, 'a', 'text/plain', 1, 'n', now() FROM webhook_deliveries WHERE id = %s",
        (dead[0],),
    )
    operators.discard_delivery(db, dead[1], actor=DANA)
    before = {one: trail(db, one) for one in [*dead, *lost, *done]}
    found = draft(db)
    assert (found.state, found.matched, found.eligible) == ("DRAFT", 8, 4)
    assert (found.requeued, found.skipped, found.remaining) == (0, 0, 4)
    assert found.filter == {"state": ["dlq"]}
    assert found.created_by == DANA
    assert found.expires_at - found.created_at == timedelta(minutes=15)
    assert {one: trail(db, one) for one in before} == before
    assert draft(db, state=["delivered"]).eligible == 3
    assert draft(db, discarded=["1"]).eligible == 1
    assert draft(db, id=[str(dead[2]), str(dead[3])]).eligible == 2
    assert draft(db, sub=[str(uuid4())]).matched == 0


def test_a_draft_says_why_the_others_cannot_be_sent_and_who_gets_how_many(
    db: Connection[Any],
) -> None:
    sub, other, gone = (make_subscription(db) for _ in range(3))
    bury(db, make_deliveries(db, sub, 4))
    bury(db, dead := make_deliveries(db, other, 5))
    bury(db, make_deliveries(db, gone, 3))
    deliver(db, make_deliveries(db, other, 2))
    db.execute("UPDATE webhook_subscriptions SET removed_at = now() WHERE id = %s", (gone,))
    db.execute(
        "INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node, erased_at)"
        " SELECT event_id, 'a', 'text/plain', 1, 'n', now() FROM webhook_deliveries WHERE id = %s",
        (dead[0],),
    )
    operators.discard_delivery(db, dead[1], actor=DANA)
    operators.replay_delivery(db, dead[2], actor=DANA)
    lease(db, [dead[2]])
    operators.replay_delivery(db, dead[3], actor=DANA)
    make_deliveries(db, sub)
    found = draft(db, state=["dlq", "delivered", "retried", "encrypted", "leased"])
    assert found.not_eligible == {
        "removed": 3, "erased": 1, "discarded": 1, "held": 1, "replayed": 1, "waiting": 1,
    }  # fmt: skip
    assert (found.matched, found.eligible, found.already_delivered) == (15, 7, 2)
    parts = replays.list_parts(db, found.id)
    assert [(part.subscription_id, part.eligible) for part in parts] == [(sub, 4), (other, 3)]
    assert replays.measure_parts(db, found.id) == replays.Parts(2, 4, 4)
    shown = replay_json(found, parts)
    assert shown["not_eligible"] == found.not_eligible
    assert shown["subscriptions"][0] == {
        "subscription_id": str(sub), "eligible": 4, "requeued": 0
    }  # fmt: skip


def test_relative_bounds_are_fixed_when_drafted(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    since = {"from": ["-1h"]}
    found = draft(db, **since)  # type: ignore[arg-type]
    (pinned,) = found.filter["from"]
    assert pinned.endswith("Z")
    assert found.matched == 1


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e9, "5", True])
def test_a_bad_rate_is_refused(db: Connection[Any], rate: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        replays.draft_replay(db, DeliveryFilter(), rate=rate, actor=DANA)
    assert caught.value.field == "rate_per_second"


def test_a_draft_expires(db: Connection[Any]) -> None:
    found = draft(db)
    pass_time(db, 15 * 60)
    with pytest.raises(ConflictError, match="expired"):
        start(db, found)


# start


def test_a_start_needs_a_reason_given_there_or_in_the_draft(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    db.commit()
    with db.transaction():
        found = replays.draft_replay(db, DeliveryFilter(), actor=DANA)
    with pytest.raises(InvalidInputError) as caught:
        replays.start_replay(db, found.id, actor=EVE)
    assert caught.value.field == "reason"
    started = replays.start_replay(db, found.id, actor=EVE, reason="now I know")
    assert (started.state, started.reason, started.started_by) == ("RUNNING", "now I know", EVE)


def test_a_confirmation_must_be_the_eligible_number(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db), 2))
    found = draft(db)
    for wrong in (0, 1, 3):
        with pytest.raises(InvalidInputError) as caught:
            replays.start_replay(db, found.id, actor=EVE, confirm=wrong)
        assert caught.value.field == "confirm"
    assert start(db, found, confirm=2).state == "RUNNING"


def test_a_draft_with_nothing_to_send_again_is_not_started(db: Connection[Any]) -> None:
    bury(db, dead := make_deliveries(db, make_subscription(db)))
    operators.discard_delivery(db, dead[0], actor=DANA)
    found = draft(db)
    with pytest.raises(ConflictError, match="of 1 deliveries that match its filter none"):
        start(db, found)


def test_started_twice_it_is_one_replay(db: Connection[Any], step: ReplayStep) -> None:
    bury(db, made := make_deliveries(db, make_subscription(db)))
    found = draft(db)
    first = start(db, found, rate=5.0)
    assert start(db, found, rate=5.0) == first
    assert start(db, found) == first
    for other in ({"reason": "another"}, {"rate": 6.0}, {"newest_first": True}):
        with pytest.raises(ConflictError, match="RUNNING"):
            replays.start_replay(db, found.id, actor=EVE, **other)
        db.rollback()
    finish(db, step, found)
    assert start(db, found).state == "DONE"
    assert trail(db, made[0]).count("REPLAYED") == 1
    assert [action.action for action in list_actions(db).rows] == ["replay.start", "replay.draft"]


# the run


def test_all_that_match_are_sent_again_and_nothing_else(
    db: Connection[Any], step: ReplayStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue, "LARGEST_BATCH", 3)
    sub, other = make_subscription(db), make_subscription(db)
    dead = make_deliveries(db, sub, 10)
    bury(db, dead)
    bury(db, others := make_deliveries(db, other, 2))
    found = draft(db, sub=[str(sub)])
    db.execute("UPDATE webhook_subscriptions SET max_attempts = 8 WHERE id = %s", (sub,))
    start(db, found)
    woken: list[bool] = []
    step._on_new = lambda: woken.append(True)  # noqa: SLF001
    done = finish(db, step, found)
    assert woken == [True] * 4
    assert (done.requeued, done.skipped, done.remaining) == (10, 0, 0)
    assert states(db, dead) == [State.RETRIED] * 10
    assert states(db, others) == [State.DLQ] * 2
    for one in dead:
        assert trail(db, one)[-2:] == ["REPLAYED", "RETRIED"]
        detail = read_trail(db, one)[-2].detail
        assert detail == {"operator": EVE, "reason": "mended", "replay_id": str(found.id)}
    row = get_delivery(db, dead[0])
    assert (row.replay_id, row.max_attempts, row.budget_start) == (found.id, 8, 1)
    scope = DeliveryFilter(replay=found.id)
    assert {row.id for row in list_deliveries(db, scope).rows} == set(dead)


def test_outcomes_are_counted_as_they_come(db: Connection[Any], step: ReplayStep) -> None:
    bury(db, dead := sorted(make_deliveries(db, make_subscription(db), 6)))
    found = draft(db)
    start(db, found)
    finish(db, step, found)
    leases = attempt(db, dead)
    assert len(leases) == 6
    db.rollback()

    def counts() -> tuple[int, ...]:
        db.commit()
        step()
        now = replays.get_replay(db, found.id)
        db.commit()
        return now.delivered, now.failed, now.passed_on, now.in_flight

    assert counts() == (0, 0, 0, 6)
    deliver(db, make_due(db, dead[:3]))
    assert counts() == (3, 0, 0, 3)
    bury(db, make_due(db, dead[3:5]))
    assert counts() == (3, 2, 0, 1)
    operators.discard_delivery(db, dead[3], actor=DANA)  # it failed before
    assert counts() == (3, 2, 0, 1)
    operators.replay_delivery(db, dead[0], actor=DANA)
    assert counts() == (2, 2, 0, 2)
    bury(db, make_due(db, [dead[0]]))
    assert counts() == (2, 3, 0, 1)
    now = replays.get_replay(db, found.id)
    assert set(now.first_failures[:2]) == {dead[3], dead[4]}  # of one batch, in any order
    assert now.first_failures[2:] == [dead[0]]
    shown = replay_json(now)
    assert (shown["delivered"], shown["failed"], shown["in_flight"]) == (2, 3, 1)
    assert shown["first_failures"] == [str(id_) for id_ in now.first_failures]


def test_one_that_another_replay_takes_over_is_that_ones(
    db: Connection[Any], step: ReplayStep
) -> None:
    bury(db, dead := make_deliveries(db, make_subscription(db), 3))
    first = draft(db)
    start(db, first)
    finish(db, step, first)
    deliver(db, make_due(db, dead[:1]))
    fail(db, make_due(db, dead[1:]))
    db.commit()
    step()
    second = draft(db, state=["retried", "delivered"], id=[str(dead[0]), str(dead[1])])
    start(db, second)
    finish(db, step, second)
    deliver(db, make_due(db, dead[:2]))
    db.commit()
    step()
    before, after = (replays.get_replay(db, one.id) for one in (first, second))
    assert (before.delivered, before.passed_on, before.in_flight) == (1, 1, 1)
    assert (after.delivered, after.passed_on, after.in_flight) == (2, 0, 0)


def test_what_is_not_an_answer_is_no_failure(db: Connection[Any], step: ReplayStep) -> None:
    """A lease that ran out, and a delivery given back, say nothing of the receiver."""
    bury(db, dead := make_deliveries(db, make_subscription(db), 2))
    found = draft(db)
    start(db, found)
    finish(db, step, found)
    (released,) = lease(db, make_due(db, dead[:1]))
    settle_many(
        db,
        [Settlement(released, State.LEASED, Cause.RELEASE, delay=timedelta(0), reason="limited")],
        worker_id=released.worker_id,
    )
    attempt(db, make_due(db, dead))
    db.execute("UPDATE webhook_deliveries SET lease_expires_at = now() WHERE worker_id IS NOT NULL")
    assert len(reap_expired(db, worker_id="w-2")) == 2
    db.commit()
    step()
    now = replays.get_replay(db, found.id)
    assert (now.delivered, now.failed, now.in_flight, now.first_failures) == (0, 0, 2, [])


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("state", ["dlq", "delivered"])
def test_it_goes_in_order(
    db: Connection[Any],
    step: ReplayStep,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    newest_first: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(requeue, "LARGEST_BATCH", 4)
    made = sorted(make_deliveries(db, make_subscription(db), 10))
    if state == "delivered":
        deliver(db, made)
    else:  # what came last died first
        for one in reversed(made):
            bury(db, make_due(db, [one]))
    found = draft(db, state=[state], newest_first=newest_first)
    start(db, found)
    finish(db, step, found)
    rows = db.execute("SELECT id FROM webhook_deliveries ORDER BY next_attempt_at").fetchall()
    is_rising = newest_first == (state == "dlq")
    assert [row[0] for row in rows] == (made if is_rising else made[::-1])


def test_rows_that_left_their_state_are_skipped_and_later_ones_left_alone(
    db: Connection[Any], step: ReplayStep
) -> None:
    sub = make_subscription(db)
    bury(db, dead := make_deliveries(db, sub, 5))
    found = draft(db)
    operators.replay_delivery(db, dead[0], actor=DANA)
    operators.discard_delivery(db, dead[1], actor=DANA)
    db.commit()
    bury(db, [dead[0]])  # in the DLQ again: not what was counted
    bury(db, late := make_deliveries(db, sub))
    db.commit()
    start(db, found)
    done = finish(db, step, found)
    assert (done.eligible, done.requeued, done.skipped) == (5, 3, 2)
    assert states(db, [dead[0], dead[1], *late]) == [State.DLQ] * 3


def test_a_move_that_commits_after_the_draft_is_not_in_it(
    db: Connection[Any], superuser_url: str, step: ReplayStep
) -> None:
    sub = make_subscription(db)
    bury(db, sound := make_deliveries(db, sub))
    made = make_deliveries(db, sub, 2)
    db.commit()
    with psycopg.connect(superuser_url) as slow:
        bury(slow, made)  # moved before the draft, committed after it
        found = draft(db)
        slow.commit()
    assert found.matched == 1
    start(db, found)
    assert finish(db, step, found).requeued == 1
    assert states(db, [*made, *sound]) == [State.DLQ, State.DLQ, State.RETRIED]


def test_a_row_that_moves_while_its_batch_runs_is_skipped(
    db: Connection[Any], superuser_url: str, step: ReplayStep
) -> None:
    bury(db, dead := sorted(make_deliveries(db, make_subscription(db), 3)))
    found = draft(db)
    start(db, found)
    with psycopg.connect(superuser_url) as other:
        operators.replay_delivery(other, dead[1], actor=DANA)  # holds the row's lock
        batch = threading.Thread(target=step)
        batch.start()
        waits = "SELECT FROM pg_locks WHERE NOT granted"
        eventually(lambda: other.execute(waits).fetchone() is not None)
        other.commit()
        batch.join()
    done = replays.get_replay(db, found.id)
    assert (done.state, done.requeued, done.skipped) == ("DONE", 2, 1)
    assert [trail(db, one).count("REPLAYED") for one in dead] == [1, 1, 1]
    assert get_delivery(db, dead[1]).replay_id is None


def test_waiting_and_delivered_ones_are_sent_when_asked_for(
    db: Connection[Any], step: ReplayStep
) -> None:
    sub = make_subscription(db)
    fail(db, waiting := make_deliveries(db, sub, 2))
    deliver(db, done := make_deliveries(db, sub, 2))
    found = draft(db, state=["delivered", "retried"])
    start(db, found)
    assert finish(db, step, found).requeued == 4
    assert get_delivery(db, waiting[0]).budget_start == 0
    assert get_delivery(db, done[0]).budget_start == 1


def test_it_keeps_its_pace_across_workers_and_pauses(
    db: Connection[Any], step: ReplayStep, db_url: str
) -> None:
    bury(db, make_deliveries(db, make_subscription(db), 7))
    db.execute(
        "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
        " AS $$SELECT '2026-11-30T12:00:00Z'::timestamptz + "
        "coalesce((SELECT sum(affected) FROM webhook_operator_actions WHERE actor = 'clock'), 0)"
        " * interval '1 second'$$"
    )
    found = draft(db, rate=2.0)
    start(db, found)
    link = Link(db_url, name="another worker")
    another = make_step(link)

    def requeued() -> int:
        count = replays.get_replay(db, found.id).requeued
        db.commit()
        return count

    def tick(seconds: int) -> None:
        operators.log_action(db, actor="clock", action="tick", target="-", affected=seconds)
        db.commit()

    assert step() == 0
    assert requeued() == 2
    assert another() == IDLE_SECONDS
    assert requeued() == 2
    tick(1)
    assert another() == 0
    assert step() == IDLE_SECONDS
    assert requeued() == 4
    replays.pause_replay(db, found.id, actor=DANA)
    tick(3600)
    assert step() == IDLE_SECONDS
    replays.resume_replay(db, found.id, actor=DANA)
    db.commit()
    step()
    assert step() == IDLE_SECONDS  # the hour of the pause is not caught up on
    assert requeued() == 6
    link.close()


def test_the_rate_is_that_of_each_subscription(db: Connection[Any], step: ReplayStep) -> None:
    subs = [make_subscription(db) for _ in range(3)]
    for sub in subs:
        bury(db, make_deliveries(db, sub, 5))
    found = draft(db)
    start(db, found, rate=2.0)
    stop_time(db, datetime(2026, 11, 30, 12, tzinfo=UTC))
    db.commit()
    while step() == 0:
        pass
    parts = replays.list_parts(db, found.id)
    assert [(part.requeued, part.is_done) for part in parts] == [(2, False)] * 3
    assert replays.measure_parts(db, found.id) == replays.Parts(3, 5, 3)


def test_a_stretch_where_few_are_meant_is_looked_at_in_bounded_batches(
    db: Connection[Any], step: ReplayStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue, "LARGEST_BATCH", 4)
    made = sorted(make_deliveries(db, make_subscription(db), 11))
    bury(db, made)
    db.execute("UPDATE webhook_deliveries SET last_status = 500 WHERE id = %s", (made[9],))
    found = draft(db, code=["500"])
    start(db, found)
    batches = 0
    while replays.get_replay(db, found.id).state == "RUNNING":
        db.commit()
        step()
        batches += 1
    assert batches == 3
    assert get_delivery(db, made[9]).current_state is State.RETRIED


def test_it_pauses_itself_when_most_of_its_last_attempts_failed(
    db: Connection[Any], step: ReplayStep
) -> None:
    bury(db, dead := sorted(make_deliveries(db, make_subscription(db), 120)))
    found = draft(db)
    started = start(db, found, rate=100.0)
    assert started.started_at is not None
    stop_time(db, started.started_at)  # the second batch is never due
    db.commit()
    step()
    deliver(db, make_due(db, dead[:10]))
    fail(db, make_due(db, dead[10:49]))
    db.commit()
    step()
    assert replays.get_replay(db, found.id).state == "RUNNING"  # too few to judge by
    bury(db, make_due(db, dead[49:50]))
    db.commit()
    step()
    assert replays.get_replay(db, found.id).state == "RUNNING"  # 40 of 50
    fail(db, make_due(db, dead[50:51]))
    db.commit()
    step()
    now = replays.get_replay(db, found.id)
    assert (now.state, now.paused_reason) == ("PAUSED", "41 of its last 50 attempts failed")
    assert len(set(now.first_failures) & set(dead[10:49])) == 5
    assert replay_json(now)["paused_reason"] == now.paused_reason
    (noted, *_) = list_actions(db).rows
    assert (noted.actor, noted.action, noted.target) == ("worker w-1", "replay.pause", str(now.id))
    assert noted.params == {"reason": now.paused_reason}
    # Who goes on all the same gives it another fifty.
    resumed = replays.resume_replay(db, found.id, actor=DANA)
    assert (resumed.state, resumed.paused_reason) == ("RUNNING", None)
    fail(db, make_due(db, dead[51:60]))
    db.commit()
    step()
    assert replays.get_replay(db, found.id).state == "RUNNING"


def test_it_pauses_resumes_and_is_cancelled(
    db: Connection[Any], step: ReplayStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue, "LARGEST_BATCH", 2)
    bury(db, dead := make_deliveries(db, make_subscription(db), 6))
    found = draft(db)
    start(db, found)
    step()
    with acting_as(db, "dashboard"):
        assert replays.pause_replay(db, found.id, actor=DANA).state == "PAUSED"
        assert replays.pause_replay(db, found.id, actor=DANA).state == "PAUSED"
    db.commit()
    assert step() == IDLE_SECONDS
    assert replays.resume_replay(db, found.id, actor=DANA).state == "RUNNING"
    db.commit()
    step()
    cancelled = replays.cancel_replay(db, found.id, actor=DANA)
    db.commit()
    assert (cancelled.state, cancelled.requeued, cancelled.remaining) == ("CANCELLED", 4, 2)
    assert cancelled.finished_at is not None
    step()
    assert states(db, sorted(dead)) == [State.RETRIED] * 4 + [State.DLQ] * 2
    for act in (replays.pause_replay, replays.resume_replay):
        with pytest.raises(ConflictError, match="CANCELLED"):
            act(db, found.id, actor=DANA)
    with pytest.raises(ConflictError, match="CANCELLED"):
        replays.start_replay(db, found.id, actor=DANA)
    assert [action.action for action in list_actions(db).rows] == [
        "replay.cancel", "replay.resume", "replay.pause", "replay.start", "replay.draft",
    ]  # fmt: skip


def test_several_take_turns(
    db: Connection[Any], step: ReplayStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requeue, "LARGEST_BATCH", 1)
    subs = [make_subscription(db), make_subscription(db)]
    for sub in subs:
        bury(db, make_deliveries(db, sub, 3))
    found = [draft(db, sub=[str(sub)]) for sub in subs]
    for one in found:
        start(db, one)
    for _ in range(4):
        step()
    assert [replays.get_replay(db, one.id).requeued for one in found] == [2, 2]


def test_two_workers_never_make_the_same_batch(db: Connection[Any], superuser_url: str) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    start(db, draft(db))
    with psycopg.connect(superuser_url) as one, psycopg.connect(superuser_url) as other:
        assert requeue.take_due(one) is not None
        assert requeue.take_due(other) is None
        one.rollback()
        assert requeue.take_due(other) is not None


def test_one_that_cannot_go_on_fails_and_is_in_nobodys_way(
    db: Connection[Any], step: ReplayStep
) -> None:
    bury(db, made := make_deliveries(db, make_subscription(db)))
    broken, sound = draft(db), draft(db)
    start(db, broken)
    start(db, sound)
    db.execute('UPDATE webhook_replays SET filter = \'{"sub": "x"}\' WHERE id = %s', (broken.id,))
    db.commit()
    finish(db, step, sound)
    found = replays.get_replay(db, broken.id)
    assert found.state == "FAILED"
    assert found.failure == "sub must be a UUID"
    assert trail(db, made[0]).count("REPLAYED") == 1


def test_nothing_to_do_is_waited_for(step: ReplayStep) -> None:
    assert step() == IDLE_SECONDS


# looking at them


@pytest.mark.parametrize(
    "act",
    [
        replays.get_replay,
        *(
            lambda conn, one, act=act: act(conn, one, actor=DANA)
            for act in (
                replays.start_replay,
                replays.pause_replay,
                replays.resume_replay,
                replays.cancel_replay,
            )
        ),
    ],
)
def test_an_unknown_replay_is_not_found(db: Connection[Any], act: Callable[..., object]) -> None:
    with pytest.raises(NotFoundError):
        act(db, uuid4())


def test_replays_are_listed_newest_first_without_drafts(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    found = [start(db, draft(db)) for _ in range(3)]
    draft(db)
    replays.cancel_replay(db, draft(db).id, actor=DANA)
    page = replays.list_replays(db, limit=2)
    assert [one.id for one in page.rows] == [found[2].id, found[1].id]
    rest = replays.list_replays(db, limit=2, after=page.next)
    assert [one.id for one in rest.rows] == [found[0].id]
