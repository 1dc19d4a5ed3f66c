"""A receiver acts once on an event, whatever library it works with and however requests race."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from django.db import connection as django_connection  # type: ignore[import-untyped]
from sqlalchemy.orm import Session

import doors
from fencepost import NotInTransactionError
from fencepost.receiver import (
    Inbox,
    MalformedHeaderError,
    MissingHeaderError,
    StaleRequestError,
)
from waiting import eventually

pytestmark = pytest.mark.postgres

EVENT = "0193b6f2-7c1e-7000-8000-000000000001"
DELIVERY = str(uuid4())


def request(token: int = 1, *, event: str = EVENT, delivery: str = DELIVERY) -> dict[str, str]:
    """The headers of a request that matter here."""
    return {
        "Webhook-Id": event,
        "Fencepost-Delivery": delivery,
        "Fencepost-Token": str(token),
    }


@pytest.fixture
def url(receivers_url: str) -> str:
    """A database of the receiver's own, with its inbox and a table of effects."""
    with psycopg.connect(receivers_url) as conn:
        conn.execute(Inbox.ddl)
        conn.execute("CREATE TABLE effects (what text)")
    return receivers_url


@pytest.fixture(params=sorted(doors.DOORS.keys() - {"sql"}))
def door(request: pytest.FixtureRequest) -> doors.Door:
    return doors.DOORS[request.param]


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as conn:
        return conn.execute(statement.encode()).fetchall()


def act(transaction: doors.Transaction, headers: dict[str, str]) -> bool:
    """What a receiver does with a request."""
    is_first = transaction.once(headers)
    if is_first:
        transaction.execute("INSERT INTO effects VALUES ('paid')")
    return is_first


def test_the_second_request_finds_the_effect_of_the_first(url: str, door: doors.Door) -> None:
    with door(url) as transaction:
        assert act(transaction, request())
        assert rows(url, "SELECT FROM webhook_inbox") == []
    for token in (1, 2):
        with door(url) as transaction:
            assert not act(transaction, request(token))
    assert rows(url, "SELECT what FROM effects") == [("paid",)]
    assert rows(
        url,
        "SELECT endpoint, webhook_id, delivery_id, fencing_token, requests, last_at > first_at"
        " FROM webhook_inbox",
    ) == [("", EVENT, DELIVERY, 2, 3, True)]


def test_an_effect_that_failed_is_done_by_the_next_request(url: str, door: doors.Door) -> None:
    def fail() -> None:
        with door(url) as transaction:
            act(transaction, request())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert rows(url, "SELECT FROM webhook_inbox") == []
    with door(url) as transaction:
        assert act(transaction, request(2))
    assert rows(url, "SELECT what FROM effects") == [("paid",)]


def test_a_request_of_a_worker_that_lost_the_delivery_is_refused(
    url: str, door: doors.Door
) -> None:
    with door(url) as transaction:
        assert act(transaction, request(7))

    def come_late() -> None:
        with door(url) as transaction:
            act(transaction, request(6))

    with pytest.raises(StaleRequestError, match="higher token than 6") as caught:
        come_late()
    assert caught.value.status == 409
    assert rows(url, "SELECT fencing_token, requests FROM webhook_inbox") == [(7, 1)]
    assert rows(url, "SELECT what FROM effects") == [("paid",)]


def test_a_duplicate_raises_the_token_that_is_asked_for(url: str) -> None:
    for token in (1, 3):
        with doors.through_psycopg(url) as transaction:
            act(transaction, request(token))
    with doors.through_psycopg(url) as transaction, pytest.raises(StaleRequestError):
        transaction.once(request(2))


def test_tokens_of_two_deliveries_are_not_compared(url: str) -> None:
    """Two subscriptions with one URL: two deliveries of one event, each counting for itself."""
    with doors.through_psycopg(url) as transaction:
        assert act(transaction, request(5))
        assert not act(transaction, request(1, delivery=str(uuid4())))
        assert not act(transaction, request(9, delivery=str(uuid4())))
        assert not act(transaction, request(5))
        with pytest.raises(StaleRequestError):
            act(transaction, request(4))


def test_each_endpoint_acts_for_itself(url: str, door: doors.Door) -> None:
    with door(url) as transaction:
        assert transaction.once(request(), endpoint="billing")
        assert transaction.once(request(), endpoint="stock")
        assert not transaction.once(request(), endpoint="stock")


def test_a_sender_without_tokens_is_known_by_its_ids_alone(url: str) -> None:
    headers = {"webhook-id": "msg_1"}
    with doors.through_psycopg(url) as transaction:
        assert transaction.once(headers)
        assert not transaction.once(headers)
        assert not transaction.once({**headers, "fencepost-token": "1"})
        assert not transaction.once({**headers, "fencepost-delivery": DELIVERY})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", ""),
        ("webhook-id", "a.b"),
        ("webhook-id", "x" * 256),
        ("Fencepost-Token", "-1"),
        ("Fencepost-Token", "1.0"),
        ("Fencepost-Token", "9" * 19),
        ("Fencepost-Delivery", ""),
        ("Fencepost-Delivery", "a b"),
        ("Fencepost-Delivery", "\x00"),
    ],
)
def test_what_cannot_be_read_is_refused_before_the_database_sees_it(name: str, value: str) -> None:
    known = {"webhook-id": EVENT, "Fencepost-Delivery": DELIVERY, "Fencepost-Token": "1"}
    with pytest.raises(MalformedHeaderError, match=name):
        Inbox(None).once({**known, name: value})
    with pytest.raises(MissingHeaderError, match="webhook-id"):
        Inbox(None).once({})


def test_without_a_transaction_nothing_is_recorded(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn, pytest.raises(NotInTransactionError):
        Inbox(conn).once(request())
    with doors.django_at(url), pytest.raises(NotInTransactionError, match="atomic"):
        Inbox(django_connection).once(request())
    with pytest.raises(TypeError, match="this takes a psycopg"):
        Inbox(None).once(request())
    assert rows(url, "SELECT FROM webhook_inbox") == []


# races


def waiters(url: str) -> int:
    """Count the requests that wait for another transaction."""
    ((count,),) = rows(
        url,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    return int(count)


def come_meanwhile(
    url: str, pool: ThreadPoolExecutor, door: doors.Door, headers: dict[str, str]
) -> Future[bool]:
    """Let a request come, and return when it waits."""

    def answer() -> bool:
        with door(url) as transaction:
            return act(transaction, headers)

    before = waiters(url)
    coming = pool.submit(answer)
    eventually(lambda: coming.done() or waiters(url) > before)
    assert not coming.done()
    return coming


def test_a_second_request_waits_for_the_first_to_commit(url: str, door: doors.Door) -> None:
    with ThreadPoolExecutor(1) as pool:
        with door(url) as transaction:
            assert act(transaction, request(1))
            second = come_meanwhile(url, pool, doors.through_psycopg, request(2))
        assert second.result(30) is False
    assert rows(url, "SELECT what FROM effects") == [("paid",)]


def test_a_second_request_acts_when_the_first_rolls_back(url: str, door: doors.Door) -> None:
    meanwhile: list[Future[bool]] = []

    def fail() -> None:
        with door(url) as transaction:
            assert act(transaction, request(1))
            meanwhile.append(come_meanwhile(url, pool, doors.through_psycopg, request(2)))
            raise InterruptedError

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InterruptedError):
            fail()
        (second,) = meanwhile
        assert second.result(30) is True
    assert rows(url, "SELECT what FROM effects") == [("paid",)]
    assert rows(url, "SELECT fencing_token, requests FROM webhook_inbox") == [(2, 1)]


def test_a_stale_request_that_waited_is_refused(url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        with doors.through_session(url) as transaction:
            assert act(transaction, request(2))
            stale = come_meanwhile(url, pool, doors.through_psycopg, request(1))
        with pytest.raises(StaleRequestError):
            stale.result(30)


def test_under_repeatable_read_the_second_fails_and_the_next_is_a_duplicate(url: str) -> None:
    def come(isolation: psycopg.IsolationLevel) -> bool:
        with psycopg.connect(url) as conn:
            conn.isolation_level = isolation
            conn.execute("SELECT")  # the snapshot is of now
            barrier.wait(30)
            return Inbox(conn).once(request(2))

    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(1) as pool:
        with doors.through_psycopg(url) as transaction:
            assert act(transaction, request(1))
            second = pool.submit(come, psycopg.IsolationLevel.REPEATABLE_READ)
            barrier.wait(30)
        with pytest.raises(psycopg.errors.SerializationFailure):
            second.result(30)
    with doors.through_psycopg(url) as transaction:
        assert not act(transaction, request(3))


def test_of_many_at_once_one_acts(url: str, door: doors.Door) -> None:
    start = threading.Barrier(6)

    def come(_: int) -> bool:
        start.wait(30)
        with doors.through_session(url) as transaction:
            return act(transaction, request())

    def here() -> bool:
        start.wait(30)
        with door(url) as transaction:
            return act(transaction, request())

    with ThreadPoolExecutor(5) as pool:
        others = pool.map(come, range(5))
        mine = here()
        assert [mine, *others].count(True) == 1
    assert rows(url, "SELECT what FROM effects") == [("paid",)]
    assert rows(url, "SELECT requests FROM webhook_inbox") == [(6,)]


# the table


def in_django(url: str, statement: str) -> None:
    with doors.through_django(url) as transaction:
        transaction.execute(statement)


def in_sqlalchemy(url: str, statement: str) -> None:
    with doors.through_session(url) as transaction:
        transaction.execute(statement)


def in_psycopg(url: str, statement: str) -> None:
    with doors.through_psycopg(url) as transaction:
        transaction.execute(statement)


@pytest.mark.parametrize("execute", [in_django, in_psycopg, in_sqlalchemy])
def test_a_migration_makes_the_table_once(
    receivers_url: str, execute: Callable[[str, str], None]
) -> None:
    for _ in range(2):
        execute(receivers_url, Inbox.ddl)
    assert rows(receivers_url, "SELECT FROM webhook_inbox") == []
    assert rows(
        receivers_url,
        "SELECT indexname FROM pg_indexes WHERE tablename = 'webhook_inbox' ORDER BY 1",
    ) == [("webhook_inbox_last_at",), ("webhook_inbox_pkey",)]


def test_purge_forgets_what_was_last_asked_for_long_ago(url: str) -> None:
    month = timedelta(days=30)
    with psycopg.connect(url) as conn:
        for number in range(5):
            Inbox(conn, endpoint=f"endpoint-{number % 2}").once({"webhook-id": f"old-{number}"})
        conn.execute("UPDATE webhook_inbox SET last_at = last_at - interval '31 days'")
        Inbox(conn).once({"webhook-id": "new"})
        Inbox(conn, endpoint="endpoint-0").once({"webhook-id": "old-0"})
        assert [Inbox(conn).purge(month, limit=3) for _ in range(3)] == [3, 1, 0]
    kept = rows(url, "SELECT webhook_id FROM webhook_inbox ORDER BY 1")
    assert kept == [("new",), ("old-0",)]
    engine = sqlalchemy.create_engine(doors.engine_url(url))
    with Session(engine) as session:
        assert Inbox(session).purge(timedelta(0)) == 2
        session.commit()
    engine.dispose()
    with doors.through_django(url):
        assert Inbox(django_connection).purge(timedelta(0)) == 0
    assert rows(url, "SELECT FROM webhook_inbox") == []


def test_purge_leaves_what_is_asked_for_at_this_moment(url: str) -> None:
    with psycopg.connect(url) as conn:
        Inbox(conn).once(request())
        conn.execute("UPDATE webhook_inbox SET last_at = last_at - interval '31 days'")
    with psycopg.connect(url) as conn, psycopg.connect(url) as other:
        assert not Inbox(conn).once(request(2))
        assert Inbox(other).purge(timedelta(days=30)) == 0
