"""Bulk replays. A draft's snapshot holds what is committed, so all of these commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, trail
from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.objects import replay_json
from fencepost.records import Replay
from fencepost.states import State
from fencepost.store import operators, replays, requeue
from fencepost.store.actions import list_actions
from fencepost.store.deliveries import get_delivery, list_deliveries, read_trail
from journeys import acting_as, attempt, bury, deliver, fail
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
    yield ReplayStep(link, on_new=lambda: None)
    link.close()


def draft(db: Connection[Any], *, rate: float | None = None, **params: list[str]) -> Replay:
    db.commit()
    with acting_as(db, "dashboard"):
        found = replays.draft_replay(
            db, DeliveryFilter.from_params(params), reason="mended", rate=rate, actor=DANA
        )
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


def test_relative_bounds_are_fixed_when_drafted(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    found = draft(db, rate=None, **{"from": ["-1h"]})
    (since,) = found.filter["from"]
    assert since.endswith("Z")
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


def test_started_twice_it_is_one_replay(db: Connection[Any], step: ReplayStep) -> None:
    bury(db, made := make_deliveries(db, make_subscription(db)))
    found = draft(db)
    first = start(db, found, rate=5.0)
    assert start(db, found, rate=5.0) == first
    assert start(db, found) == first
    with pytest.raises(ConflictError, match="RUNNING"):
        replays.start_replay(db, found.id, actor=EVE, reason="another")
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


def test_outcomes_are_counted_from_the_deliveries(db: Connection[Any], step: ReplayStep) -> None:
    bury(db, dead := make_deliveries(db, make_subscription(db), 4))
    found = draft(db)
    start(db, found)
    finish(db, step, found)
    leases = attempt(db, dead)
    assert len(leases) == 4
    db.rollback()
    deliver(db, dead)
    operators.replay_delivery(db, dead[0], actor=DANA)
    bury(db, [dead[0]])
    now = replays.get_replay(db, found.id)
    assert (now.delivered, now.failed, now.requeued) == (3, 1, 4)
    shown = replay_json(now)
    assert (shown["delivered"], shown["failed"], shown["remaining"]) == (3, 1, 0)


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
    made = make_deliveries(db, make_subscription(db), 2)
    db.commit()
    with psycopg.connect(superuser_url) as slow:
        bury(slow, made)  # moved before the draft, committed after it
        found = draft(db)
        slow.commit()
    assert found.matched == 0
    start(db, found)
    assert finish(db, step, found).requeued == 0
    assert states(db, made) == [State.DLQ] * 2


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
    another = ReplayStep(link, on_new=lambda: None)

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
    found = [start(db, draft(db)) for _ in range(3)]
    draft(db)
    replays.cancel_replay(db, draft(db).id, actor=DANA)
    page = replays.list_replays(db, limit=2)
    assert [one.id for one in page.rows] == [found[2].id, found[1].id]
    rest = replays.list_replays(db, limit=2, after=page.next)
    assert [one.id for one in rest.rows] == [found[0].id]
    assert rest.rows[0].delivered is None
