"""However many publish under one idempotency key at once, they publish one event."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from typing import Any
from uuid import UUID

import psycopg
import pytest

from fencepost import IdempotencyConflictError, publish
from fencepost.keyring import Keyring
from fencepost.producer import NewEvent, Producer
from fencepost.publish import publish_sealed_many
from waiting import eventually

pytestmark = pytest.mark.postgres

AT_ONCE = 50


@pytest.fixture
def producer(keyring: Keyring) -> Producer:
    return Producer(keyring)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as executor:
        yield executor


@pytest.fixture
def first(db_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db_url) as conn:
        yield conn


def count(url: str, table: str) -> int:
    with psycopg.connect(url) as conn:
        (row,) = conn.execute(f"SELECT count(*) FROM webhook_{table}".encode()).fetchall()
    return int(row[0])


def is_blocked(url: str) -> bool:
    with psycopg.connect(url) as conn:
        rows = conn.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ).fetchall()
    return bool(rows)


def publish_alone(url: str, producer: Producer, payload: bytes = b"[1]") -> UUID:
    with psycopg.connect(url) as conn:
        return publish(conn, "order.paid", payload, idempotency_key="k", producer=producer)


@pytest.mark.parametrize("through", ["python", "sql", "both"])
def test_fifty_at_once_are_one_event(
    db_url: str, producer: Producer, threads: ThreadPoolExecutor, through: str
) -> None:
    barrier = Barrier(AT_ONCE)

    def attempt(number: int) -> UUID:
        with psycopg.connect(db_url) as conn:
            barrier.wait()
            if through == "python" or (through == "both" and number % 2):
                return publish(conn, "order.paid", b"[1]", idempotency_key="k", producer=producer)
            (row,) = conn.execute(
                "SELECT webhook_publish('order.paid', '[1]', idempotency_key => 'k')"
            ).fetchall()
            return UUID(str(row[0]))

    assert len(set(threads.map(attempt, range(AT_ONCE)))) == 1
    assert count(db_url, "events") == count(db_url, "outbox") == 1


def test_of_fifty_different_ones_one_is_published(
    db_url: str, producer: Producer, threads: ThreadPoolExecutor
) -> None:
    barrier = Barrier(AT_ONCE)

    def attempt(number: int) -> UUID | None:
        with psycopg.connect(db_url) as conn:
            barrier.wait()
            try:
                return publish(
                    conn, "order.paid", {"number": number}, idempotency_key="k", producer=producer
                )
            except IdempotencyConflictError:
                return None

    ids = list(threads.map(attempt, range(AT_ONCE)))
    assert ids.count(None) == AT_ONCE - 1
    assert count(db_url, "events") == 1


def test_who_comes_second_waits_for_the_first_to_commit(
    db_url: str,
    producer: Producer,
    threads: ThreadPoolExecutor,
    first: psycopg.Connection[Any],
) -> None:
    event_id = publish(first, "order.paid", b"[1]", idempotency_key="k", producer=producer)
    second: Future[UUID] = threads.submit(publish_alone, db_url, producer)
    eventually(lambda: is_blocked(db_url))
    assert not second.done()
    first.commit()
    assert second.result() == event_id


def test_who_comes_second_publishes_when_the_first_rolls_back(
    db_url: str,
    producer: Producer,
    threads: ThreadPoolExecutor,
    first: psycopg.Connection[Any],
) -> None:
    event_id = publish(first, "order.paid", b"[1]", idempotency_key="k", producer=producer)
    second = threads.submit(publish_alone, db_url, producer, b"[2]")
    eventually(lambda: is_blocked(db_url))
    first.rollback()
    assert second.result() != event_id
    assert count(db_url, "events") == 1


def test_a_key_is_free_again_once_its_event_is_removed(
    db_url: str,
    producer: Producer,
    threads: ThreadPoolExecutor,
    first: psycopg.Connection[Any],
) -> None:
    event_id = publish_alone(db_url, producer)
    first.execute("DELETE FROM webhook_idempotency_keys")
    second = threads.submit(publish_alone, db_url, producer)
    eventually(lambda: is_blocked(db_url))
    first.commit()
    assert second.result() != event_id
    assert count(db_url, "events") == 2


def test_what_was_answered_is_not_removed_before_the_commit(
    db_url: str, producer: Producer, first: psycopg.Connection[Any]
) -> None:
    event_id = publish_alone(db_url, producer)
    assert publish(first, "order.paid", b"[1]", idempotency_key="k", producer=producer) == event_id
    with psycopg.connect(db_url) as conn:
        conn.execute("SET lock_timeout = '20ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            conn.execute("DELETE FROM webhook_idempotency_keys")


def test_repeatable_read_refuses_a_key_it_cannot_see(
    db_url: str, producer: Producer, first: psycopg.Connection[Any]
) -> None:
    first.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    first.execute("SELECT 1")
    publish_alone(db_url, producer)
    with pytest.raises(psycopg.errors.SerializationFailure):
        publish(first, "order.paid", b"[1]", idempotency_key="k", producer=producer)


def test_batches_that_share_keys_never_deadlock(
    db_url: str, producer: Producer, threads: ThreadPoolExecutor
) -> None:
    keys = [f"k{number}" for number in range(100)]
    orders = [keys, keys[::-1], keys[50:] + keys[:50], keys[::-1][30:] + keys[::-1][:30]]
    barrier = Barrier(len(orders))

    def attempt(order: list[str]) -> dict[str, UUID]:
        events = [NewEvent("order.paid", b"[1]", idempotency_key=key) for key in order]
        with psycopg.connect(db_url) as conn:
            barrier.wait()
            published = publish_sealed_many(conn, events, producer=producer)
        return dict(zip(order, (event.id for event in published), strict=True))

    found = list(threads.map(attempt, orders))
    assert all(one == other for one, other in pairwise(found))
    assert count(db_url, "events") == len(keys)
