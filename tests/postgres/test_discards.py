"""Bulk discards. A draft's snapshot holds what is committed, so all of these commit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, trail
from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.records import Discard
from fencepost.states import State
from fencepost.store import discards, giving_up, operators
from fencepost.store.actions import list_actions
from fencepost.store.deliveries import get_delivery, read_trail
from journeys import acting_as, bury, deliver, fail
from waiting import eventually
from worker.discard import IDLE_SECONDS, DiscardStep
from worker.link import Link

DANA, EVE = "user dana", "user eve"


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url) as conn:
        yield conn


@pytest.fixture
def step(db_url: str) -> Iterator[DiscardStep]:
    link = Link(db_url, name="test discard")
    yield DiscardStep(link)
    link.close()


def draft(db: Connection[Any], **params: list[str]) -> Discard:
    db.commit()
    with acting_as(db, "dashboard"):
        found = discards.draft_discard(
            db, DeliveryFilter.from_params(params), reason="obsolete", actor=DANA
        )
    db.commit()
    return found


def start(db: Connection[Any], found: Discard, **more: Any) -> Discard:
    with acting_as(db, "dashboard"):
        started = discards.start_discard(db, found.id, actor=EVE, **more)
    db.commit()
    return started


def finish(db: Connection[Any], step: DiscardStep, found: Discard) -> Discard:
    now = found
    for _ in range(50):
        step()
        now = discards.get_discard(db, found.id)
        db.commit()
        if now.state == "DONE":
            return now
    raise AssertionError(now)


def test_a_draft_counts_exactly_and_touches_nothing(db: Connection[Any]) -> None:
    sub = make_subscription(db)
    bury(db, dead := make_deliveries(db, sub, 4))
    deliver(db, done := make_deliveries(db, sub, 2))
    operators.discard_delivery(db, dead[0], actor=DANA)
    before = {one: trail(db, one) for one in [*dead, *done]}
    found = draft(db)
    assert (found.state, found.matched, found.eligible, found.remaining) == ("DRAFT", 4, 3, 3)
    assert found.filter == {"state": ["dlq"]}
    assert found.expires_at - found.created_at == timedelta(minutes=15)
    assert {one: trail(db, one) for one in before} == before
    assert draft(db, state=["delivered"]).eligible == 0
    assert draft(db, id=[str(dead[2])]).eligible == 1
    assert draft(db, sub=[str(uuid4())]).matched == 0


def test_what_was_counted_is_given_up_and_nothing_else(
    db: Connection[Any], step: DiscardStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving_up.discard_batch, "__defaults__", (2,))
    other, sub = make_subscription(db), make_subscription(db)
    bury(db, others := make_deliveries(db, other, 3))
    bury(db, mine := make_deliveries(db, sub, 5))
    found = draft(db, sub=[str(sub)])
    bury(db, late := make_deliveries(db, sub))
    start(db, found, confirm=5)
    assert step() == 0
    assert discards.get_discard(db, found.id).discarded == 2
    done = finish(db, step, found)
    assert (done.discarded, done.skipped, done.remaining) == (5, 0, 0)
    assert done.finished_at is not None
    for one in mine:
        assert get_delivery(db, one).discarded_at is not None
        assert trail(db, one)[-2:] == ["DISCARDED", "DLQ"]
        assert read_trail(db, one)[-2].detail == {"operator": EVE, "reason": "obsolete"}
    for one in [*others, *late]:
        assert get_delivery(db, one).discarded_at is None
    assert [(row.action, row.affected) for row in list_actions(db).rows] == [
        ("discard.start", 5), ("discard.draft", 0),
    ]  # fmt: skip
    db.commit()
    assert step() == IDLE_SECONDS


def test_it_passes_over_what_moved_since_the_draft(db: Connection[Any], step: DiscardStep) -> None:
    bury(db, made := make_deliveries(db, make_subscription(db), 3))
    found = draft(db)
    operators.replay_delivery(db, made[0], actor=DANA)
    db.commit()
    bury(db, [made[0]])  # dead again, for another reason than the one that was seen
    db.commit()
    start(db, found)
    done = finish(db, step, found)
    assert (done.discarded, done.skipped) == (2, 1)
    assert get_delivery(db, made[0]).discarded_at is None


def test_a_row_that_moves_while_its_batch_runs_is_skipped(
    db: Connection[Any], superuser_url: str, step: DiscardStep
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
    done = discards.get_discard(db, found.id)
    assert (done.state, done.discarded, done.skipped) == ("DONE", 2, 1)
    assert get_delivery(db, dead[1]).current_state is State.RETRIED


def test_it_may_name_waiting_states(db: Connection[Any], step: DiscardStep) -> None:
    sub = make_subscription(db)
    fail(db, made := make_deliveries(db, sub, 2))
    waiting = make_deliveries(db, sub)
    found = draft(db, state=["encrypted", "retried"])
    assert found.eligible == 3
    start(db, found)
    assert finish(db, step, found).discarded == 3
    assert {get_delivery(db, one).current_state for one in [*made, *waiting]} == {State.DLQ}


def test_a_start_needs_a_reason_the_number_and_a_young_draft(db: Connection[Any]) -> None:
    bury(db, make_deliveries(db, make_subscription(db), 2))
    db.commit()
    with db.transaction():
        found = discards.draft_discard(db, DeliveryFilter(), actor=DANA)
    with pytest.raises(InvalidInputError) as caught:
        discards.start_discard(db, found.id, actor=EVE)
    assert caught.value.field == "reason"
    with pytest.raises(InvalidInputError) as caught:
        discards.start_discard(db, found.id, actor=EVE, reason="obsolete", confirm=3)
    assert caught.value.field == "confirm"
    with pytest.raises(NotFoundError):
        discards.start_discard(db, uuid4(), actor=EVE)
    pass_time(db, 15 * 60)
    with pytest.raises(ConflictError, match="expired"):
        discards.start_discard(db, found.id, actor=EVE, reason="late")


def test_started_twice_it_is_one_discard(db: Connection[Any], step: DiscardStep) -> None:
    bury(db, (made := make_deliveries(db, make_subscription(db))))
    found = draft(db)
    first = start(db, found)
    assert start(db, found) == first
    with pytest.raises(ConflictError, match="RUNNING"):
        discards.start_discard(db, found.id, actor=EVE, reason="another")
    db.rollback()
    finish(db, step, found)
    assert start(db, found).state == "DONE"
    assert trail(db, made[0]).count("DISCARDED") == 1


def test_a_cancel_ends_it_between_two_batches(
    db: Connection[Any], step: DiscardStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving_up.discard_batch, "__defaults__", (2,))
    bury(db, dead := make_deliveries(db, make_subscription(db), 6))
    found = draft(db)
    start(db, found)
    step()
    with acting_as(db, "dashboard"):
        discards.cancel_discard(db, found.id, actor=DANA)
    db.commit()
    assert step() == IDLE_SECONDS
    now = discards.cancel_discard(db, found.id, actor=DANA)
    assert (now.state, now.discarded, now.remaining) == ("CANCELLED", 2, 4)
    assert [get_delivery(db, one).discarded_at is None for one in sorted(dead)].count(True) == 4
    with pytest.raises(ConflictError, match="CANCELLED"):
        discards.start_discard(db, found.id, actor=EVE)


def test_one_that_cannot_go_on_fails_and_is_in_nobodys_way(
    db: Connection[Any], step: DiscardStep
) -> None:
    bury(db, make_deliveries(db, make_subscription(db)))
    broken, sound = draft(db), draft(db)
    start(db, broken)
    start(db, sound)
    unreadable = '{"state": ["nowhere"]}'
    db.execute("UPDATE webhook_discards SET filter = %s WHERE id = %s", (unreadable, broken.id))
    db.commit()
    finish(db, step, sound)
    failed = discards.get_discard(db, broken.id)
    assert failed.state == "FAILED"
    assert "state" in (failed.failure or "")


def test_two_workers_never_make_the_same_batch(
    db: Connection[Any], superuser_url: str, step: DiscardStep
) -> None:
    bury(db, make_deliveries(db, make_subscription(db), 3))
    found = draft(db)
    start(db, found)
    with psycopg.connect(superuser_url) as other:
        assert giving_up.take_running(other) is not None
        assert step() == IDLE_SECONDS
        other.rollback()
    assert finish(db, step, found).discarded == 3
