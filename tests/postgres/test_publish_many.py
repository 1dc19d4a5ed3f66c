"""A batch is published as a whole or not at all, in its order."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from fencepost import (
    IdempotencyConflictError,
    InvalidInputError,
    KeyUnavailableError,
    NotInTransactionError,
    publish,
)
from fencepost.keyring import Keyring
from fencepost.payloads import InvalidJsonError
from fencepost.producer import NewEvent, Producer
from fencepost.publish import publish_sealed_many, publish_test
from fencepost.store.migrate import migrate

pytestmark = pytest.mark.postgres


@pytest.fixture
def producer(keyring: Keyring) -> Producer:
    return Producer(keyring)


def stored(conn: Connection[Any], keyring: Keyring) -> list[bytes]:
    """Open the payloads of the outbox, in its order."""
    rows = conn.execute(
        "SELECT e.id, e.content_type, e.event_type, p.sealed FROM webhook_outbox o"
        " JOIN webhook_events e ON e.id = o.event_id JOIN webhook_payloads p ON p.event_id = e.id"
        " ORDER BY o.id"
    ).fetchall()
    return [
        keyring.open_payload(sealed, event_id=id_, content_type=content_type, event_type=event_type)
        for id_, content_type, event_type, sealed in rows
    ]


def test_every_event_is_there_in_its_order(
    conn: Connection[Any], producer: Producer, keyring: Keyring
) -> None:
    events = [NewEvent("order.paid", b"%d" % number) for number in range(2500)]
    events[7] = NewEvent("file.stored", bytes(range(256)), "application/octet-stream")
    published = publish_sealed_many(conn, events, producer=producer)
    assert stored(conn, keyring) == [event.payload for event in events]
    ids = conn.execute("SELECT event_id FROM webhook_outbox ORDER BY id").fetchall()
    assert [(event.id, event.duplicate) for event in published] == [(id_, False) for (id_,) in ids]


def test_nothing_is_no_fault(conn: Connection[Any], producer: Producer) -> None:
    assert publish_sealed_many(conn, [], producer=producer) == []


def test_duplicates_are_told_from_new_events(
    conn: Connection[Any], producer: Producer, keyring: Keyring
) -> None:
    known = publish(conn, "a", b"[1]", idempotency_key="known", producer=producer)
    published = publish_sealed_many(
        conn,
        [
            NewEvent("a", b"[1]", idempotency_key="known"),
            NewEvent("a", b"[2]", idempotency_key="new"),
            NewEvent("a", b"[2]"),
            NewEvent("a", b"[2]", idempotency_key="new"),
        ],
        producer=producer,
    )
    assert [event.duplicate for event in published] == [True, False, False, True]
    assert published[0].id == known
    assert published[1].id == published[3].id != published[2].id
    assert stored(conn, keyring) == [b"[1]", b"[2]", b"[2]"]


def test_one_that_cannot_be_accepted_refuses_all_and_is_named(
    conn: Connection[Any], producer: Producer, keyring: Keyring
) -> None:
    fine = NewEvent("a", b"[1]")
    with pytest.raises(InvalidJsonError, match=r"^event 2: this is not JSON") as caught:
        publish_sealed_many(conn, [fine, NewEvent("a", b"{"), fine], producer=producer)
    assert caught.value.field == "payload"
    with pytest.raises(InvalidInputError, match=r"^event 3: ") as invalid:
        publish_sealed_many(conn, [fine, fine, NewEvent("a b", b"[]")], producer=producer)
    assert invalid.value.field == "event_type"
    assert stored(conn, keyring) == []


def test_a_key_of_another_event_is_named(conn: Connection[Any], producer: Producer) -> None:
    publish(conn, "a", b"[1]", idempotency_key="k", producer=producer)
    events = [NewEvent("a", b"[1]"), NewEvent("a", b"[2]", idempotency_key="k")]
    with pytest.raises(IdempotencyConflictError, match=r"^event 2: "):
        publish_sealed_many(conn, events, producer=producer)
    within = [
        NewEvent("a", b"[1]", idempotency_key="j"),
        NewEvent("b", b"[1]", idempotency_key="j"),
    ]
    with pytest.raises(IdempotencyConflictError, match=r"^event 2: "):
        publish_sealed_many(conn, within, producer=producer)


def test_what_the_database_refuses_says_which(conn: Connection[Any], keyring: Keyring) -> None:
    generous = Producer(keyring, max_payload_bytes=1_000_000)
    events = [NewEvent("a", b"x", "text/plain"), NewEvent("a", b"x" * 300_000, "text/plain")]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"\(event 2\)"):
        publish_sealed_many(conn, events, producer=generous)


def test_a_batch_needs_a_transaction(db_url: str, producer: Producer) -> None:
    with psycopg.connect(db_url, autocommit=True) as conn, pytest.raises(NotInTransactionError):
        publish_sealed_many(conn, [NewEvent("a", b"[]")], producer=producer)


def test_a_fingerprint_is_kept_only_with_a_key(conn: Connection[Any], producer: Producer) -> None:
    publish(conn, "a", b"[1]", producer=producer)
    publish(conn, "a", b"[1]", idempotency_key="k", producer=producer)
    ((key, mac),) = conn.execute("SELECT key, mac FROM webhook_idempotency_keys").fetchall()
    assert key == "k"
    assert producer.keyring.key_ids[0].encode() in mac


def test_a_test_event_is_for_one_subscription(
    conn: Connection[Any], producer: Producer, keyring: Keyring
) -> None:
    subscription_id = producer.seal(NewEvent("a", b"")).id
    event_id = publish_test(conn, subscription_id, {"hello": "world"}, producer=producer)
    row = conn.execute("SELECT id, event_type, only_subscription_id FROM webhook_events").fetchone()
    assert row == (event_id, "fencepost.test", subscription_id)
    assert stored(conn, keyring) == [b'{"hello":"world"}']


def test_another_schema_has_events_of_its_own(db_url: str, keyring: Keyring) -> None:
    migrate(db_url, "hooks")
    with psycopg.connect(db_url) as conn:
        publish(conn, "a", b"[1]", producer=Producer(keyring, schema="hooks"))
        conn.execute("SET search_path = hooks")
        assert stored(conn, keyring) == [b"[1]"]
        conn.execute("SET search_path = public")
        assert stored(conn, keyring) == []


def test_a_producer_shows_no_key_and_no_payload(producer: Producer) -> None:
    event = NewEvent("a", b"c1ear-text", idempotency_key="k")
    shown = f"{producer!r} {event!r} {producer.seal(event)!r}"
    assert "c1ear-text" not in shown
    assert "sealed=" not in shown


def test_other_keys_cannot_open_it(conn: Connection[Any], producer: Producer) -> None:
    publish(conn, "a", b"[1]", producer=producer)
    with pytest.raises(KeyUnavailableError):
        stored(conn, Keyring.parse(Keyring.generate()))
