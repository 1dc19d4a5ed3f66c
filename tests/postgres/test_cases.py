"""What went wrong for others, tried with a whole worker in this process."""

from __future__ import annotations

import logging
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription, pass_time, subscribe, trail
from fencepost.errors import ConflictError, SettingsError
from fencepost.keyring import Keyring
from fencepost.store import subscriptions
from fencepost.store.leases import Room, claim_due, reap_expired
from fencepost.store.operators import discard_delivery, replay_delivery
from fencepost.store.pool import connect
from invariants import check
from receiver import Answer, Receiver
from waiting import eventually
from worker import hooks
from worker.build import Worker
from workers import WorkerThread

Start = Callable[..., WorkerThread]


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def people(db_url: str) -> Iterator[Connection[Any]]:
    """A connection with the rights of the dashboard."""
    with connect(db_url, role="dashboard") as connection:
        yield connection


@pytest.fixture
def run(settings: Any, db_url: str) -> Start:
    def start(**chosen: object) -> WorkerThread:
        return WorkerThread(Worker(settings(db_url, **chosen)))

    return start


@pytest.fixture
def beats() -> Iterator[Callable[[], None]]:
    """Wait until every worker of this process has surely looked for something to claim."""
    beaten = threading.Semaphore(0)
    hooks.listen("beat", lambda _: beaten.release())

    def wait() -> None:
        for _ in range(4):
            assert beaten.acquire(timeout=30)

    yield wait
    hooks.listen("beat", lambda _: None)


def publish(db: Connection[Any], count: int = 1) -> list[UUID]:
    rows = db.execute(
        "SELECT webhook_publish('invoice.paid', '{}') FROM generate_series(1, %s)", (count,)
    ).fetchall()
    return [row[0] for row in rows]


def states(db: Connection[Any]) -> Counter[str]:
    rows = db.execute("SELECT current_state FROM webhook_deliveries").fetchall()
    return Counter(row[0] for row in rows)


def test_c06_there_is_no_heartbeat_to_set_wrong(settings: Any) -> None:
    with pytest.raises(SettingsError, match="FENCEPOST_HEARTBEAT_SECONDS"):
        settings(lease_seconds=20, heartbeat_seconds=30)
    chosen = settings(lease_seconds=20, deadline_seconds=60)
    assert chosen.heartbeat_seconds <= chosen.lease_seconds / 3


def in_form(version: int, sealed: bytes) -> bytes:
    """Say of a ciphertext that it is of another form, in the head that all forms share."""
    label = sealed[5 : 6 + sealed[5]]
    check = zlib.crc32(bytes((version,)) + label)
    return bytes((version,)) + check.to_bytes(4, "big") + sealed[5:]


def test_c07_what_this_version_does_not_know_is_left_to_one_that_does(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    """A migration of a later release is here already, and a producer of it too."""
    db.execute(
        "ALTER TABLE webhook_subscriptions"
        " DROP CONSTRAINT webhook_subscriptions_signature_scheme_check"
    )
    with Receiver() as receiver:
        strange, _ = subscribe(
            db, endpoint_keyring, receiver.url, event_type_patterns=["a"], signature_scheme="ed448"
        )
        subscribe(db, endpoint_keyring, receiver.url, event_type_patterns=["b"])
        with caplog.at_level(logging.WARNING), run():
            db.execute("SELECT webhook_publish('a', '{}'), webhook_publish('a', '{}')")
            eventually(lambda: states(db) == {"RETRIED": 2})
            db.execute("UPDATE webhook_deliveries SET next_attempt_at = now()")
            eventually(
                lambda: (
                    db.execute("SELECT min(fencing_token) FROM webhook_deliveries").fetchone()
                    == (2,)
                )
            )
            eventually(lambda: states(db) == {"RETRIED": 2})
            told = [line for line in caplog.messages if "ed448" in line]
            assert len(told) == 1
            # A payload in a later form: a producer was upgraded first.
            db.execute("UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x'")
            db.execute("SELECT webhook_publish('b', '{}')")
            eventually(
                lambda: db.execute("SELECT count(*) FROM webhook_payloads").fetchone() == (3,)
            )
            row = db.execute(
                "SELECT p.event_id, p.sealed FROM webhook_payloads p"
                " JOIN webhook_events e ON e.id = p.event_id WHERE e.event_type = 'b'"
            ).fetchone()
            assert row is not None
            db.execute(
                "UPDATE webhook_payloads SET sealed = %s WHERE event_id = %s",
                (in_form(9, row[1]), row[0]),
            )
            db.execute(
                "UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL"
                " WHERE id <> %s",
                (strange,),
            )
            eventually(lambda: states(db) == {"RETRIED": 3})
        assert receiver.requests == []
    rows = db.execute("SELECT DISTINCT attempt_count FROM webhook_deliveries").fetchall()
    assert rows == [(0,)]
    check(db, receiver.requests)


def test_c11_a_retry_far_ahead_is_made_once_and_when_it_is_due(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring, beats: Callable[[], None]
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url, state="paused", paused_reason="x")
        publish(db)
        with run():
            eventually(lambda: states(db) == {"ENCRYPTED": 1})
        db.execute("UPDATE webhook_deliveries SET next_attempt_at = now() + interval '2 hours'")
        db.execute("UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL")
        for minutes in (0, 60, 119):
            pass_time(db, minutes * 60)
            with run(lease_seconds=1):
                beats()
            assert states(db) == {"ENCRYPTED": 1}
        assert receiver.requests == []
        pass_time(db, 121 * 60)
        with run(lease_seconds=1), run(lease_seconds=1):
            eventually(lambda: states(db) == {"DELIVERED": 1})
            beats()
        assert len(receiver.requests) == 1
        check(db, receiver.requests)


def test_c26_five_thousand_expired_leases_all_come_back(db: Connection[Any]) -> None:
    make_deliveries(db, make_subscription(db), 5_000)
    claim_due(
        db,
        worker_id="dead",
        lease=timedelta(0),
        room=Room(slots=5_000, share=5_000),
    )
    batches = []
    while found := len(reap_expired(db, worker_id="r", batch=200)):
        batches.append(found)
    assert batches == [200] * 25
    assert states(db) == {"RETRIED": 5_000}
    check(db)


def test_c29_a_receiver_that_resets_for_ever_is_given_up_after_its_budget(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(Answer(end="before_head", reset=True)) as receiver, run():
        subscribe(db, endpoint_keyring, receiver.url, max_attempts=5)
        publish(db)
        eventually(lambda: states(db) == {"DLQ": 1})
        assert len(receiver.requests) == 5
        check(db, receiver.requests)
    row = db.execute("SELECT id, attempt_count, last_error FROM webhook_deliveries").fetchone()
    assert row is not None
    assert row[1:] == (5, "reset")
    assert trail(db, row[0]).count("ATTEMPTED") == trail(db, row[0]).count("FAILED") == 5


def test_c41_three_subscriptions_of_one_event_fail_each_for_itself(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(500) as receiver, run():
        for n in (2, 3, 4):
            subscribe(db, endpoint_keyring, f"{receiver.url}/{n}", max_attempts=n)
        publish(db)
        eventually(lambda: states(db) == {"DLQ": 3})
        check(db, receiver.requests)
    assert Counter(got.target for got in receiver.requests) == {"/2": 2, "/3": 3, "/4": 4}
    rows = db.execute("SELECT DISTINCT dead_reason FROM webhook_deliveries").fetchall()
    assert rows == [("budget_spent",)]


def test_c46_a_removed_subscription_ends_what_waits_and_keeps_its_history(
    db: Connection[Any], people: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    hour = {"backoff_base_seconds": 3600, "backoff_cap_seconds": 3600}
    with Receiver(404) as receiver, run():
        sub, _ = subscribe(db, endpoint_keyring, receiver.url, **hour)
        publish(db, 2)
        eventually(lambda: states(db) == {"DLQ": 2})
        receiver.script = lambda _: Answer(503)
        publish(db, 3)
        eventually(lambda: states(db) == {"DLQ": 2, "RETRIED": 3})
        receiver.script = lambda _: Answer(200, hold=True)
        publish(db)
        eventually(lambda: states(db)["ATTEMPTED"] == 1)
        receiver.wait_for(6)
        with people.transaction():
            subscriptions.remove_subscription(people, sub, actor="dana")
        eventually(lambda: states(db) == {"DLQ": 5, "ATTEMPTED": 1})
        receiver.release()
        eventually(lambda: states(db) == {"DLQ": 5, "DELIVERED": 1})
        check(db, receiver.requests)
    rows = db.execute(
        "SELECT id, dead_reason FROM webhook_deliveries WHERE current_state = 'DLQ'"
    ).fetchall()
    assert Counter(reason for _, reason in rows) == {"not_retryable": 2, "subscription_removed": 3}
    for id_, reason in rows:
        told = ["LEASED", "FAILED", "DLQ"] if reason == "subscription_removed" else ["DLQ"]
        assert trail(db, id_)[-len(told) :] == told
        with pytest.raises(ConflictError, match="removed"), people.transaction():
            replay_delivery(people, id_, actor="dana")


def test_c47_what_is_published_while_paused_is_held_and_stays_in_peoples_hands(
    db: Connection[Any], people: Connection[Any], run: Start, endpoint_keyring: Keyring,
    beats: Callable[[], None],
) -> None:  # fmt: skip
    with Receiver() as receiver, run(lease_seconds=1):
        sub, _ = subscribe(db, endpoint_keyring, receiver.url)
        with people.transaction():
            subscriptions.pause_subscription(people, sub, actor="dana")
        publish(db, 10)
        eventually(lambda: states(db) == {"ENCRYPTED": 10})
        beats()
        assert receiver.requests == []
        row = db.execute("SELECT id FROM webhook_deliveries LIMIT 1").fetchone()
        assert row is not None
        with people.transaction():
            discard_delivery(people, row[0], actor="dana", reason="not this one")
        assert trail(db, row[0])[-2:] == ["DISCARDED", "DLQ"]
        with people.transaction():
            subscriptions.resume_subscription(people, sub, actor="dana")
        eventually(lambda: states(db) == {"DELIVERED": 9, "DLQ": 1})
        check(db, receiver.requests)
    assert len(receiver.requests) == 9
    rows = db.execute("SELECT action FROM webhook_operator_actions ORDER BY id").fetchall()
    assert [row[0] for row in rows] == [
        "subscription.pause", "delivery.discard", "subscription.resume",
    ]  # fmt: skip


def test_c50_one_that_hangs_leaves_room_to_another(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(Answer(hold=True)) as hanging, Receiver() as well, run(concurrency=8):
        subscribe(db, endpoint_keyring, hanging.url, event_type_patterns=["a"])
        subscribe(db, endpoint_keyring, well.url, event_type_patterns=["b"])
        db.execute("SELECT webhook_publish('a', '{}') FROM generate_series(1, 100)")
        hanging.wait_for(2)
        db.execute("SELECT webhook_publish('b', '{}') FROM generate_series(1, 10)")
        well.wait_for(10)
        assert len(hanging.requests) == 2  # it has never answered: no more is risked
        hanging.release()
        eventually(lambda: states(db) == {"DELIVERED": 110})
        check(db, hanging.requests + well.requests)
