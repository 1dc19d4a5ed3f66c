"""The server commits and its answer is lost, or the server goes away: in every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import subscribe, trail
from fencepost.keyring import Keyring
from invariants import check
from line import Line
from receiver import Answer, Receiver
from waiting import eventually
from worker.build import Worker
from workers import WorkerThread

EVENTS = 5

# Words that one statement has and no other.
STATEMENTS = {
    "claim": "WITH RECURSIVE",
    "payloads": "JOIN webhook_events e ON e.id = i.id",
    "endpoints": "AS is_removed",
    "attempt": "attempt_count = d.attempt_count + 1",
    "settle": "budget_start = d.budget_start + h.refund",
    "renew": "renewed AS (",
    "beat": "ON CONFLICT (worker_id) DO UPDATE",
}


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


Start = Callable[..., WorkerThread]


@pytest.fixture
def run(settings: Any) -> Start:
    def start(url: str, **chosen: object) -> WorkerThread:
        return WorkerThread(Worker(settings(url, **{"lease_seconds": 1.5, **chosen})))

    return start


def publish(db: Connection[Any], count: int = EVENTS) -> list[UUID]:
    rows = db.execute(
        "SELECT webhook_publish('invoice.paid', '{}') FROM generate_series(1, %s)", (count,)
    ).fetchall()
    return [row[0] for row in rows]


def in_state(db: Connection[Any], state: str) -> int:
    row = db.execute(
        "SELECT count(*) FROM webhook_deliveries WHERE current_state = %s", (state,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def hold_back(db: Connection[Any], run: Start, url: str, sub: UUID) -> None:
    """Fan events out while their subscription is paused, then resume it."""
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x' WHERE id = %s",
        (sub,),
    )
    publish(db)
    with run(url):
        eventually(lambda: in_state(db, "ENCRYPTED") == EVENTS)
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL WHERE id = %s",
        (sub,),
    )


@pytest.mark.parametrize("statement", list(STATEMENTS))
def test_a_lost_answer_costs_no_delivery_and_sends_none_twice(
    db: Connection[Any], db_url: str, run: Start, endpoint_keyring: Keyring, statement: str
) -> None:
    phrase = STATEMENTS[statement]
    with Receiver(Answer(delay=1 if statement == "renew" else 0)) as receiver:
        sub, _ = subscribe(db, endpoint_keyring, receiver.url)
        hold_back(db, run, db_url, sub)
        with Line(db_url) as line:
            line.lose_the_answer_to(phrase)
            with run(line.url) as running:
                eventually(lambda: in_state(db, "DELIVERED") == EVENTS)
                assert running.end() == 0
            assert line.severed == [phrase.encode()]
        check(db, receiver.requests)
        assert len(receiver.requests) == EVENTS
    if statement != "claim":  # whose leases nobody knows of: they run out
        row = db.execute(
            "SELECT count(*) FROM webhook_delivery_attempts WHERE state = 'LEASE_EXPIRED'"
        ).fetchone()
        assert row == (0,)
    used = db.execute("SELECT DISTINCT attempt_count - budget_start FROM webhook_deliveries")
    assert used.fetchall() == [(1,)]
    assert db.execute("SELECT count(*) FROM webhook_fenced_writes").fetchone() == (0,)


def test_a_fan_out_whose_commit_was_not_answered_happened_once(
    db: Connection[Any], db_url: str, run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        publish(db)
        with Line(db_url) as line:
            line.lose_the_answer_to("COMMIT")
            with run(line.url):
                eventually(lambda: in_state(db, "DELIVERED") == EVENTS)
            assert line.severed == [b"COMMIT"]
        check(db, receiver.requests)
        assert len(receiver.requests) == EVENTS


def test_a_reaper_whose_answer_was_lost_has_reaped_once(
    db: Connection[Any], db_url: str, run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        sub, _ = subscribe(db, endpoint_keyring, receiver.url)
        hold_back(db, run, db_url, sub)
        db.execute(
            "WITH held AS (UPDATE webhook_deliveries SET current_state = 'LEASED', worker_id = 'x',"
            " seq = seq + 1, fencing_token = 1, lease_expires_at = now() RETURNING id, seq)"
            " INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id,"
            " fencing_token) SELECT id, seq, 'LEASED', 'x', 1 FROM held"
        )
        with Line(db_url) as line:
            line.lose_the_answer_to("was_suspect")
            with run(line.url):
                eventually(lambda: in_state(db, "DELIVERED") == EVENTS)
            assert line.severed == [b"was_suspect"]
        check(db, receiver.requests)
    for (id_,) in db.execute("SELECT id FROM webhook_deliveries").fetchall():
        assert trail(db, id_).count("LEASE_EXPIRED") == 1
