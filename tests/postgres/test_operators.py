from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row

from factories import make_deliveries, make_subscription, pass_time, trail
from fencepost.action_filter import ActionFilter
from fencepost.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotInTransactionError,
)
from fencepost.model import Delivery
from fencepost.states import State
from fencepost.store import operators
from fencepost.store.actions import list_actions
from fencepost.store.deliveries import get_delivery, read_trail
from journeys import acting_as, attempt, bury, deliver, fail, lease
from waiting import eventually

ACTOR = "user dana"
ERASE = """
    INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node, erased_at)
    SELECT event_id, 'a', 'text/plain', 1, 'n', fencepost_now() FROM webhook_deliveries
"""


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        yield superuser


@pytest.fixture
def sub(db: Connection[Any]) -> UUID:
    return make_subscription(db)


def replay(db: Connection[Any], delivery_id: UUID, reason: str | None = None) -> Delivery:
    with acting_as(db, "dashboard"):
        return operators.replay_delivery(db, delivery_id, actor=ACTOR, reason=reason)


def discard(db: Connection[Any], delivery_id: UUID, reason: str | None = None) -> Delivery:
    with acting_as(db, "dashboard"):
        return operators.discard_delivery(db, delivery_id, actor=ACTOR, reason=reason)


def row_of(db: Connection[Any], delivery_id: UUID) -> dict[str, Any]:
    query = "SELECT * FROM webhook_deliveries WHERE id = %s"
    with db.cursor(row_factory=dict_row) as cur:
        row = cur.execute(query, (delivery_id,)).fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize(("end", "count"), [(bury, 1), (deliver, 1)])
def test_a_replay_gives_what_has_ended_a_fresh_budget(
    db: Connection[Any], sub: UUID, end: Callable[..., None], count: int
) -> None:
    (made,) = make_deliveries(db, sub)
    end(db, [made])
    before = row_of(db, made)
    db.execute("UPDATE webhook_subscriptions SET max_attempts = 9")
    found = replay(db, made, "their gateway is fixed")
    after = row_of(db, made)
    assert found.current_state is State.RETRIED
    assert after["budget_start"] == after["attempt_count"] == before["attempt_count"] == count
    assert (after["max_attempts"], after["lane"], after["expiries"]) == (9, 1, 0)
    assert after["first_attempt_at"] is after["dead_at"] is after["dead_reason"] is None
    assert after["fencing_token"] == before["fencing_token"]
    assert (after["last_status"], after["last_error"]) == (
        before["last_status"],
        before["last_error"],
    )
    assert after["next_attempt_at"] == after["updated_at"]
    assert trail(db, made)[-2:] == ["REPLAYED", "RETRIED"]
    replayed, retried = read_trail(db, made)[-2:]
    assert replayed.detail == {"operator": ACTOR, "reason": "their gateway is fixed"}
    assert replayed.worker_id is retried.worker_id is None
    assert replayed.fencing_token == before["fencing_token"]
    assert retried.detail is not None
    assert (retried.detail["delay_ms"], retried.detail["reason"]) == (0, "replay")
    deliver(db, [made])
    assert get_delivery(db, made).attempt_count == count + 1


def test_send_now_keeps_budget_and_lane(db: Connection[Any], sub: UUID) -> None:
    (made,) = make_deliveries(db, sub)
    fail(db, [made], delay=3600)
    before = row_of(db, made)
    db.execute("UPDATE webhook_subscriptions SET max_attempts = 9")
    replay(db, made)
    after = row_of(db, made)
    for name in ("budget_start", "first_attempt_at", "max_attempts", "lane", "attempt_count"):
        assert after[name] == before[name], name
    assert after["next_attempt_at"] < before["next_attempt_at"]
    assert trail(db, made)[-3:] == ["RETRIED", "REPLAYED", "RETRIED"]
    assert read_trail(db, made)[-2].detail == {"operator": ACTOR}


@pytest.mark.parametrize("move", [lease, attempt, None])
def test_what_is_on_its_way_is_not_replayed(
    db: Connection[Any], sub: UUID, move: Callable[..., object] | None
) -> None:
    (made,) = make_deliveries(db, sub)
    if move is not None:
        move(db, [made])
    before, rows = row_of(db, made), trail(db, made)
    with pytest.raises(ConflictError, match=f"is {before['current_state']}"):
        replay(db, made)
    db.execute("RESET ROLE")
    assert row_of(db, made) == before
    assert trail(db, made) == rows


def test_pressed_twice_it_is_replayed_once_and_says_by_whom(db: Connection[Any], sub: UUID) -> None:
    (made,) = make_deliveries(db, sub)
    bury(db, [made])
    replay(db, made)
    with pytest.raises(ConflictError, match="replayed by user dana at 20"):
        replay(db, made)
    db.execute("RESET ROLE")
    assert trail(db, made).count("REPLAYED") == 1
    pass_time(db, 30)
    fail(db, [made], delay=60)
    assert replay(db, made).current_state is State.RETRIED


def test_one_that_is_due_by_itself_can_be_sent_now(db: Connection[Any], sub: UUID) -> None:
    (made,) = make_deliveries(db, sub)
    fail(db, [made], delay=0)
    assert replay(db, made).current_state is State.RETRIED


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            "UPDATE webhook_subscriptions SET removed_at = fencepost_now()",
            "subscription was removed",
        ),
        (
            ERASE,
            "payload was erased",
        ),
    ],
)
def test_what_cannot_be_sent_is_not_replayed(
    db: Connection[Any], sub: UUID, damage: str, words: str
) -> None:
    (made,) = make_deliveries(db, sub)
    bury(db, [made])
    db.execute(damage)
    with pytest.raises(ConflictError, match=words):
        replay(db, made)
    db.execute("RESET ROLE")
    assert get_delivery(db, made).current_state is State.DLQ


@pytest.mark.parametrize("move", [None, fail, bury])
def test_a_discarded_delivery_is_dead_and_says_why(
    db: Connection[Any], sub: UUID, move: Callable[..., None] | None
) -> None:
    (made,) = make_deliveries(db, sub)
    if move is not None:
        move(db, [made])
    was = row_of(db, made)
    found = discard(db, made, "customer left")
    assert found.current_state is State.DLQ
    assert found.dead_reason == "discarded: customer left"
    assert found.discarded_at is not None
    assert found.dead_at == (was["dead_at"] or found.discarded_at)
    assert found.next_attempt_at is None
    assert trail(db, made)[-2:] == ["DISCARDED", "DLQ"]
    discarded, dead = read_trail(db, made)[-2:]
    assert discarded.detail == {"operator": ACTOR, "reason": "customer left"}
    assert dead.detail == {"reason": "discarded: customer left"}


@pytest.mark.parametrize("move", [lease, attempt, deliver])
def test_what_a_worker_holds_or_delivered_is_not_discarded(
    db: Connection[Any], sub: UUID, move: Callable[..., object]
) -> None:
    (made,) = make_deliveries(db, sub)
    move(db, [made])
    before = row_of(db, made)
    with pytest.raises(ConflictError, match=f"is {before['current_state']}"):
        discard(db, made)
    db.execute("RESET ROLE")
    assert row_of(db, made) == before


def test_it_is_discarded_once_and_can_be_replayed_after_all(db: Connection[Any], sub: UUID) -> None:
    (made,) = make_deliveries(db, sub)
    discard(db, made)
    with pytest.raises(ConflictError, match="discarded already"):
        discard(db, made)
    db.execute("RESET ROLE")
    found = replay(db, made)
    assert found.current_state is State.RETRIED
    assert found.discarded_at is found.dead_at is None


@pytest.mark.parametrize("act", [operators.replay_delivery, operators.discard_delivery])
def test_an_unknown_delivery_is_not_found(db: Connection[Any], act: Callable[..., object]) -> None:
    with pytest.raises(NotFoundError):
        act(db, uuid4(), actor=ACTOR)


@pytest.mark.parametrize("reason", ["x" * 301, "a\0b", "\ud800", 7])
def test_a_reason_is_one_line(db: Connection[Any], sub: UUID, reason: Any) -> None:
    (made,) = make_deliveries(db, sub)
    with pytest.raises(InvalidInputError) as caught:
        operators.discard_delivery(db, made, actor=ACTOR, reason=reason)
    assert caught.value.field == "reason"
    found = operators.discard_delivery(db, made, actor=ACTOR, reason="two\n lines ")
    assert found.dead_reason == "discarded: two lines"


def test_every_action_is_logged_once_and_none_that_was_refused(
    db: Connection[Any], sub: UUID
) -> None:
    (made,) = make_deliveries(db, sub)
    discard(db, made, "why")
    with pytest.raises(ConflictError):
        discard(db, made)
    db.execute("RESET ROLE")
    replay(db, made)
    newest, oldest = list_actions(db).rows
    assert (oldest.actor, oldest.action, oldest.target) == (ACTOR, "delivery.discard", str(made))
    assert oldest.params == {"reason": "why", "from_state": "ENCRYPTED"}
    assert (newest.action, newest.affected, newest.outcome) == ("delivery.replay", 1, "done")
    assert list_actions(db, ActionFilter(actor="user eve")).rows == ()
    assert len(list_actions(db, ActionFilter(target=str(made)), limit=1).rows) == 1
    operators.log_action(
        db, actor="user eve", action="delivery.replay", target=str(made), outcome="denied"
    )
    page = list_actions(db, limit=2)
    assert page.rows[0].outcome == "denied"
    older = list_actions(db, limit=2, after=page.next)
    assert older.rows == [oldest]
    assert list_actions(db, limit=2, before=older.prev).rows == page.rows


def test_a_change_and_its_log_need_one_transaction(db_url: str) -> None:
    with psycopg.connect(db_url, autocommit=True) as conn:
        for act in (operators.replay_delivery, operators.discard_delivery):
            with pytest.raises(NotInTransactionError):
                act(conn, uuid4(), actor=ACTOR)


def test_two_operators_at_once_replay_a_delivery_once(superuser_url: str) -> None:
    with psycopg.connect(superuser_url) as setup:
        (made,) = make_deliveries(setup, make_subscription(setup))
        bury(setup, [made])
    outcomes: list[object] = []

    def press(conn: Connection[Any], name: str) -> None:
        try:
            outcomes.append(operators.replay_delivery(conn, made, actor=name))
            conn.commit()
        except ConflictError as error:
            outcomes.append(error)

    with psycopg.connect(superuser_url) as one, psycopg.connect(superuser_url) as other:
        operators.replay_delivery(one, made, actor="user one")
        second = threading.Thread(target=press, args=(other, "user other"))
        second.start()
        waits = "SELECT FROM pg_locks WHERE NOT granted"
        eventually(lambda: one.execute(waits).fetchone() is not None)
        one.commit()
        second.join()
    (lost,) = outcomes
    assert isinstance(lost, ConflictError)
    assert "replayed by user one" in str(lost)
    with psycopg.connect(superuser_url) as conn:
        assert trail(conn, made).count("REPLAYED") == 1
