"""Whatever library a producer works with, its event exists exactly when its transaction commits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy
from django.db import connection as django_connection  # type: ignore[import-untyped]
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import doors
from fencepost import (
    IdempotencyConflictError,
    InvalidInputError,
    NotInTransactionError,
    SettingsError,
    apublish,
    publish,
)
from fencepost.keyring import Keyring
from fencepost.producer import Producer
from fencepost.publish import _producer_of_this_process

pytestmark = pytest.mark.postgres

Environ = Callable[..., dict[str, str]]
HOSTILE = (
    (b'{"b":1,  "a":1.10}\n', "application/json"),
    ('{"a":"é","b":"\\u00e9"}'.encode(), "application/json"),
    (b'{"a":"\\/"}', "application/json"),
    (b"9007199254740993", "application/json"),
    (b'{"a":1,"a":2}', "application/json"),
    (b"[]", "application/json"),
    (bytes(range(256)), "application/octet-stream"),
    (b'"%s %(a)s %%"', "application/json"),
    (b"", "text/plain"),
)


@pytest.fixture
def url(db_url: str, environ: Environ, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database with a table of the producer's own; this process's settings point at it."""
    for name, value in environ(db_url).items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(db_url) as conn:
        conn.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    _producer_of_this_process.cache_clear()
    yield db_url
    _producer_of_this_process.cache_clear()


@pytest.fixture(params=doors.DOORS)
def door(request: pytest.FixtureRequest) -> doors.Door:
    return doors.DOORS[request.param]


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as conn:
        return conn.execute(statement.encode()).fetchall()


def payload_of(url: str, keyring: Keyring, event_id: UUID) -> bytes:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            """SELECT e.event_type, e.content_type, e.payload_bytes, e.sealed_by,
                      o.payload, p.sealed
                 FROM webhook_events e
                 JOIN webhook_outbox o ON o.event_id = e.id
                 LEFT JOIN webhook_payloads p ON p.event_id = e.id
                WHERE e.id = %s""",
            (event_id,),
        ).fetchone()
    assert row is not None
    event_type, content_type, length, sealed_by, clear, sealed = row
    assert (sealed_by == "producer") == (clear is None) == (sealed is not None)
    payload: bytes = (
        clear
        if sealed is None
        else keyring.open_payload(
            sealed, event_id=event_id, content_type=content_type, event_type=event_type
        )
    )
    assert len(payload) == length
    return payload


def test_commit_and_the_event_is_there(url: str, door: doors.Door, keyring: Keyring) -> None:
    with door(url) as transaction:
        transaction.execute("INSERT INTO orders VALUES ('order-1')")
        event_id = transaction.publish("order.paid", b'{"order":1}')
        assert rows(url, "SELECT FROM webhook_events") == []
    assert rows(url, "SELECT id, event_type FROM webhook_events") == [(event_id, "order.paid")]
    assert rows(url, "SELECT id FROM orders") == [("order-1",)]
    assert payload_of(url, keyring, event_id) == b'{"order":1}'
    assert event_id.version == 7


def test_roll_back_and_it_never_was(url: str, door: doors.Door) -> None:
    def change_your_mind() -> None:
        with door(url) as transaction:
            transaction.execute("INSERT INTO orders VALUES ('order-1')")
            transaction.publish("order.paid", b'{"order":1}', idempotency_key="once")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        change_your_mind()
    for table in ("events", "payloads", "outbox", "idempotency_keys"):
        assert rows(url, f"SELECT FROM webhook_{table}") == []
    assert rows(url, "SELECT FROM orders") == []


@pytest.mark.parametrize("name", doors.DOORS)
def test_a_producer_killed_before_its_commit_publishes_nothing(url: str, name: str) -> None:
    with subprocess.Popen(
        [sys.executable, str(Path(doors.__file__)), name],
        env={**os.environ, "DATABASE_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"published\n"
        finally:
            process.kill()
    with psycopg.connect(url) as conn:
        # Waits until the server has noticed and given the killed transaction's locks back.
        conn.execute("LOCK TABLE orders, webhook_events IN ACCESS EXCLUSIVE MODE")
        assert conn.execute("SELECT FROM webhook_events").fetchall() == []
        assert conn.execute("SELECT FROM orders").fetchall() == []


def test_every_byte_stays_as_it_is(url: str, door: doors.Door, keyring: Keyring) -> None:
    with door(url) as transaction:
        ids = [
            transaction.publish("order.paid", payload, content_type=content_type)
            for payload, content_type in HOSTILE
        ]
    assert [payload_of(url, keyring, id_) for id_ in ids] == [payload for payload, _ in HOSTILE]


def test_the_same_again_under_its_key_gives_the_first_id(url: str, door: doors.Door) -> None:
    with door(url) as transaction:
        first = transaction.publish("order.paid", b"[1]", idempotency_key="order-1")
        assert transaction.publish("order.paid", b"[1]", idempotency_key="order-1") == first
    with door(url) as transaction:
        assert transaction.publish("order.paid", b"[1]", idempotency_key="order-1") == first
        assert transaction.publish("order.paid", b"[1]", idempotency_key="order-2") != first
    assert len(rows(url, "SELECT FROM webhook_outbox")) == 2


@pytest.mark.parametrize("name", sorted(doors.DOORS.keys() - {"sql"}))
def test_what_was_sealed_is_nowhere_in_clear(url: str, name: str) -> None:
    with doors.DOORS[name](url) as transaction:
        transaction.publish("order.paid", {"marker": "c1ear-text"}, idempotency_key="k")
    for table in ("events", "payloads", "outbox", "idempotency_keys"):
        dump = str(rows(url, f"SELECT t::text FROM webhook_{table} t"))
        assert dump != "[]"
        assert "c1ear-text" not in dump
        assert b"c1ear-text".hex() not in dump


@pytest.mark.parametrize("name", sorted(doors.DOORS.keys() - {"sql"}))
def test_a_key_of_another_event_is_refused_and_the_transaction_goes_on(url: str, name: str) -> None:
    with doors.DOORS[name](url) as transaction:
        transaction.publish("order.paid", b"[1]", idempotency_key="order-1")
        for event_type, payload, content_type in (
            ("order.paid", b"[2]", "application/json"),
            ("order.void", b"[1]", "application/json"),
            ("order.paid", b"[1]", "text/plain"),
        ):
            with pytest.raises(IdempotencyConflictError):
                transaction.publish(
                    event_type, payload, content_type=content_type, idempotency_key="order-1"
                )
        transaction.execute("INSERT INTO orders VALUES ('order-1')")
    assert len(rows(url, "SELECT FROM webhook_events")) == 1
    assert len(rows(url, "SELECT FROM orders")) == 1


def test_psycopg_in_autocommit_has_no_transaction(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        with pytest.raises(NotInTransactionError, match="autocommit"):
            publish(conn, "order.paid", {})
        with conn.pipeline(), conn.transaction():
            publish(conn, "order.paid", {})
        with pytest.raises(NotInTransactionError):
            publish(conn, "order.paid", {})
    assert len(rows(url, "SELECT FROM webhook_events")) == 1


def test_async_psycopg_in_autocommit_has_no_transaction(url: str) -> None:
    async def attempt() -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            with pytest.raises(NotInTransactionError, match="autocommit"):
                await apublish(conn, "order.paid", {})
            async with conn.transaction():
                await apublish(conn, "order.paid", {})

    asyncio.run(attempt())
    assert len(rows(url, "SELECT FROM webhook_events")) == 1


def test_sqlalchemy_in_autocommit_has_no_transaction(url: str) -> None:
    engine = sqlalchemy.create_engine(doors.engine_url(url))
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    for bound in (autocommit.connect(), Session(autocommit)):
        with bound, pytest.raises(NotInTransactionError, match="AUTOCOMMIT"):
            publish(bound, "order.paid", {})
    with (
        Session(engine, autobegin=False) as session,
        pytest.raises(NotInTransactionError, match="begin"),
    ):
        publish(session, "order.paid", {})
    engine.dispose()

    async def attempt() -> None:
        async_engine = create_async_engine(doors.engine_url(url), isolation_level="AUTOCOMMIT")
        async with async_engine.connect() as conn:
            with pytest.raises(NotInTransactionError, match="AUTOCOMMIT"):
                await apublish(conn, "order.paid", {})
        await async_engine.dispose()

    asyncio.run(attempt())
    assert rows(url, "SELECT FROM webhook_events") == []


def test_django_outside_atomic_has_no_transaction(url: str) -> None:
    with doors.django_at(url):
        with pytest.raises(NotInTransactionError, match="atomic"):
            publish(django_connection, "order.paid", {})
        django_connection.set_autocommit(False)
        publish(django_connection, "order.paid", {})
        django_connection.commit()
    assert len(rows(url, "SELECT FROM webhook_events")) == 1


def test_values_become_compact_json(url: str, keyring: Keyring) -> None:
    with psycopg.connect(url) as conn:
        event_id = publish(conn, "order.paid", {"b": 1, "a": ["é", None]})
    assert payload_of(url, keyring, event_id) == '{"b":1,"a":["é",null]}'.encode()


def test_the_connections_own_settings_do_not_matter(url: str, keyring: Keyring) -> None:
    with psycopg.connect(url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute("SET search_path = pg_catalog")
        conn.execute("SET standard_conforming_strings = off")
        event_id = publish(conn, "order.paid", b"[]", idempotency_key="k")
        assert publish(conn, "order.paid", b"[]", idempotency_key="k") == event_id
    assert payload_of(url, keyring, event_id) == b"[]"


def test_what_is_refused_leaves_the_transaction_alone(url: str) -> None:
    with psycopg.connect(url) as conn:
        refusals: tuple[Callable[[], UUID], ...] = (
            lambda: publish(conn, "order..paid", {}),
            lambda: publish(conn, "order.paid", b"{"),
            lambda: publish(conn, "order.paid", b"x" * 262_145, content_type="text/plain"),
            lambda: publish(conn, "order.paid", {}, idempotency_key="a b"),
            lambda: publish(conn, "order.paid", {}, content_type="json"),
            lambda: publish(conn, "order.paid", {1, 2}),
        )
        for refused in refusals:
            with pytest.raises(InvalidInputError):
                refused()
        publish(conn, "order.paid", b"x" * 262_144, content_type="text/plain")
    assert rows(url, "SELECT payload_bytes FROM webhook_events") == [(262_144,)]


def test_only_known_connections_are_taken(url: str) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    for other in (None, "postgresql://", object(), engine, engine.connect()):
        with pytest.raises(TypeError, match="psycopg"):
            publish(other, "order.paid", {})
    engine.dispose()

    async def attempt() -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            with pytest.raises(TypeError, match="await apublish"):
                publish(conn, "order.paid", {})
        with psycopg.connect(url) as sync, pytest.raises(TypeError, match="asynchronous"):
            await apublish(sync, "order.paid", {})

    asyncio.run(attempt())


def test_without_keys_nothing_is_published(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_KEYS")
    with psycopg.connect(url) as conn, pytest.raises(SettingsError, match="FENCEPOST_KEYS"):
        publish(conn, "order.paid", {})


def test_the_event_says_where_it_was_taken_in(url: str, keyring: Keyring) -> None:
    with psycopg.connect(url) as conn:
        publish(conn, "order.paid", {}, producer=Producer(keyring, node="shop-1"))
    assert rows(url, "SELECT node, content_type FROM webhook_events") == [
        ("shop-1", "application/json")
    ]


def test_a_rotated_keyring_still_knows_its_idempotency_keys(url: str) -> None:
    fresh = Keyring.generate()
    both = Keyring.parse(f"{fresh},{os.environ['FENCEPOST_KEYS']}")
    with psycopg.connect(url) as conn:
        first = publish(conn, "order.paid", b"[1]", idempotency_key="k")
        rotated = Producer(both)
        assert publish(conn, "order.paid", b"[1]", idempotency_key="k", producer=rotated) == first
        with pytest.raises(IdempotencyConflictError):
            publish(conn, "order.paid", b"[2]", idempotency_key="k", producer=rotated)
        # Without the old key, type, content type and length are all there is to compare.
        forgotten = Producer(Keyring.parse(fresh))
        assert publish(conn, "order.paid", b"[2]", idempotency_key="k", producer=forgotten) == first
        with pytest.raises(IdempotencyConflictError):
            publish(conn, "order.paid", b"[22]", idempotency_key="k", producer=forgotten)


def test_a_key_from_the_sql_function_holds_here_too(url: str) -> None:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT webhook_publish('order.paid', '[1]', idempotency_key => 'k')"
        ).fetchone()
        assert row is not None
        assert publish(conn, "order.paid", b"[1]", idempotency_key="k") == row[0]
        with pytest.raises(IdempotencyConflictError):
            publish(conn, "order.paid", b"[10]", idempotency_key="k")
