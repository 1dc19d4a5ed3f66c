"""A whole worker, in this process, from a producer's commit to the receiver and back."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Any, Self
from uuid import UUID

import psycopg
import pytest
import standardwebhooks
from psycopg import Connection

from factories import subscribe, trail
from fencepost.keyring import Keyring
from fencepost.payloads import matches_fingerprint
from receiver import Answer, Receiver, in_turn
from waiting import eventually
from worker.build import Worker


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


class Running:
    """A worker in a thread; what it was asked to do is over when it is left."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.stop = threading.Event()
        self.status: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.status = self.worker.run(self.stop)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


@pytest.fixture
def run(db_url: str, settings: Any) -> Any:
    def start(**chosen: object) -> Running:
        return Running(Worker(settings(db_url, **chosen)))

    return start


both_transports = pytest.mark.parametrize("transport", ["requests", "curl"])


def publish(db: Connection[Any], body: bytes = b'{"n": 1}', kind: str = "invoice.paid") -> UUID:
    row = db.execute("SELECT webhook_publish(%s, %s)", (kind, body)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def delivery_of(db: Connection[Any], event_id: UUID) -> tuple[UUID, str, int] | None:
    return db.execute(
        "SELECT id, current_state, attempt_count FROM webhook_deliveries WHERE event_id = %s",
        (event_id,),
    ).fetchone()


def settled(db: Connection[Any], event_id: UUID, state: str) -> tuple[UUID, str, int]:
    """Wait until the event's only delivery is in ``state``."""

    def found() -> tuple[UUID, str, int] | None:
        row = delivery_of(db, event_id)
        return row if row is not None and row[1] == state else None

    row = eventually(found)
    assert row is not None
    return row


@both_transports
def test_an_event_is_delivered_signed_and_told(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, transport: str
) -> None:
    with Receiver() as receiver, run(transport=transport):
        _, secret = subscribe(
            db, endpoint_keyring, receiver.url + "/hook", headers={"X-Team": "billing"}
        )
        event_id = publish(db, b'{"b":1,  "a":1.10}\n')
        id_, _, attempts = settled(db, event_id, "DELIVERED")
    (got,) = receiver.requests
    assert attempts == 1
    assert (got.method, got.target) == ("POST", "/hook")
    assert got.body == b'{"b":1,  "a":1.10}\n'
    assert got.header("webhook-id") == str(event_id)
    assert got.header("content-type") == "application/json"
    assert got.header("user-agent").startswith("Fencepost/")
    assert got.header("fencepost-delivery") == str(id_)
    assert got.header("fencepost-attempt") == got.header("fencepost-token") == "1"
    assert got.header("fencepost-event-type") == "invoice.paid"
    assert got.header("x-team") == "billing"
    standardwebhooks.Webhook(secret).verify(got.body, dict(got.headers))
    assert trail(db, id_) == ["RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED", "DELIVERED"]
    assert db.execute("SELECT count(*) FROM webhook_outbox").fetchone() == (0,)


def test_a_beat_tells_how_much_gets_done(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run(lease_seconds=1):
        subscribe(db, endpoint_keyring, receiver.url)
        settled(db, publish(db), "DELIVERED")

        def told() -> tuple[float, float] | None:
            return db.execute(
                "SELECT attempts_per_minute, p95_ms FROM webhook_workers WHERE p95_ms IS NOT NULL"
            ).fetchone()

        found = eventually(told)
    assert found is not None
    # One attempt, in less time than a minute, that was answered at once.
    assert found[0] > 1
    assert 0 <= found[1] < 10_000


def test_a_roll_back_publishes_nothing(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run():
        subscribe(db, endpoint_keyring, receiver.url)
        with db.transaction(force_rollback=True):
            ghost = publish(db)
        event_id = publish(db)
        settled(db, event_id, "DELIVERED")
        assert delivery_of(db, ghost) is None
    assert [got.header("webhook-id") for got in receiver.requests] == [str(event_id)]


@both_transports
def test_it_fails_backs_off_and_is_delivered(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, transport: str
) -> None:
    with Receiver(in_turn(503, 503, 200)) as receiver, run(transport=transport):
        subscribe(db, endpoint_keyring, receiver.url)
        id_, _, attempts = settled(db, publish(db), "DELIVERED")
    assert attempts == len(receiver.requests) == 3
    assert len({got.header("webhook-id") for got in receiver.requests}) == 1
    assert [got.header("fencepost-attempt") for got in receiver.requests] == ["1", "2", "3"]
    assert trail(db, id_) == [
        *("RECEIVED", "ENCRYPTED"),
        *(("LEASED", "ATTEMPTED", "FAILED", "RETRIED") * 2),
        *("LEASED", "ATTEMPTED", "DELIVERED"),
    ]


def test_the_budget_ends_in_the_dlq_after_exactly_as_many_requests(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver(500) as receiver, run():
        subscribe(db, endpoint_keyring, receiver.url, max_attempts=3)
        id_, _, attempts = settled(db, publish(db), "DLQ")
    assert attempts == len(receiver.requests) == 3
    assert trail(db, id_)[-2:] == ["FAILED", "DLQ"]


def test_what_no_retry_mends_is_dead_at_once_and_410_pauses(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver(404) as well, Receiver(410) as gone, run():
        subscribe(db, endpoint_keyring, well.url)
        settled(db, publish(db), "DLQ")
        sub, _ = subscribe(
            db, endpoint_keyring, gone.url, event_types=["x"], event_type_patterns=["x"]
        )
        publish(db, kind="x")
        eventually(
            lambda: db.execute(
                "SELECT 1 FROM webhook_subscriptions WHERE id = %s AND state = 'paused'", (sub,)
            ).fetchone()
        )
    assert len(gone.requests) == 1


def test_retry_after_is_a_floor(db: Connection[Any], run: Any, endpoint_keyring: Keyring) -> None:
    with Receiver(Answer(503, {"Retry-After": "120"})) as receiver, run():
        subscribe(db, endpoint_keyring, receiver.url)
        id_, _, _ = settled(db, publish(db), "RETRIED")
    row = db.execute(
        "SELECT (detail ->> 'delay_ms')::int, detail ->> 'reason' FROM webhook_delivery_attempts"
        " WHERE delivery_id = %s AND state = 'RETRIED'",
        (id_,),
    ).fetchone()
    assert row == (120_000, "retry_after")


def test_one_event_meets_every_subscription_that_matches(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run():
        for name, pattern in (("all", "%"), ("invoices", "invoice.%"), ("orders", "order.%")):
            subscribe(db, endpoint_keyring, f"{receiver.url}/{name}", event_type_patterns=[pattern])
        event_id = publish(db)
        receiver.wait_for(2)
        eventually(
            lambda: (
                db.execute(
                    "SELECT count(*) = 2 AND bool_and(current_state = 'DELIVERED')"
                    " FROM webhook_deliveries WHERE event_id = %s",
                    (event_id,),
                ).fetchone()
                == (True,)
            )
        )
    assert sorted(got.target for got in receiver.requests) == ["/all", "/invoices"]


@pytest.mark.parametrize("harm", ["flip", "cut", "move"])
def test_a_harmed_ciphertext_never_leaves(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, harm: str
) -> None:
    with Receiver() as receiver:
        sub, _ = subscribe(db, endpoint_keyring, receiver.url, state="paused", paused_reason="x")
        with run():
            first, second = publish(db), publish(db)
            eventually(
                lambda: db.execute("SELECT count(*) FROM webhook_payloads").fetchone() == (2,)
            )
            statement = {
                "flip": "UPDATE webhook_payloads SET sealed = set_byte(sealed, length(sealed) - 1,"
                " get_byte(sealed, length(sealed) - 1) # 1) WHERE event_id = %(first)s",
                "cut": "UPDATE webhook_payloads SET sealed = substring(sealed FROM 1 FOR"
                " length(sealed) - 1) WHERE event_id = %(first)s",
                "move": "UPDATE webhook_payloads p SET sealed = o.sealed FROM webhook_payloads o"
                " WHERE p.event_id = %(first)s AND o.event_id = %(second)s",
            }[harm]
            db.execute(statement, {"first": first, "second": second})
            db.execute(
                "UPDATE webhook_subscriptions SET state = 'active', paused_reason = NULL"
                " WHERE id = %s",
                (sub,),
            )
            id_, _, attempts = settled(db, first, "DLQ")
            settled(db, second, "DELIVERED")
    assert attempts == 0
    assert [got.header("webhook-id") for got in receiver.requests] == [str(second)]
    row = db.execute(
        "SELECT dead_reason, last_error FROM webhook_deliveries WHERE id = %s", (id_,)
    ).fetchone()
    assert row == ("payload_undecryptable", "payload_undecryptable")
    assert trail(db, id_)[-3:] == ["LEASED", "FAILED", "DLQ"]


def test_a_missing_key_releases_and_the_key_delivers(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    other = Keyring.generate()
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        with run(keys=other):
            event_id = publish(db)
            id_, _, _ = settled(db, event_id, "DELIVERED")
        lost = publish_sealed_with(db, other)
        with run():
            id_, _, attempts = settled(db, lost, "RETRIED")
            assert attempts == 0
            assert trail(db, id_)[-2:] == ["RELEASED", "RETRIED"]
        db.execute("UPDATE webhook_deliveries SET next_attempt_at = now() WHERE id = %s", (id_,))
        with run(keys=other):
            settled(db, lost, "DELIVERED")
    assert len(receiver.requests) == 2


def publish_sealed_with(db: Connection[Any], keys: str) -> UUID:
    """Publish as a producer does who has other keys."""
    event_id = UUID(
        str(db.execute("SELECT fencepost_uuid7(fencepost_now())").fetchone()[0])  # type: ignore[index]
    )
    key_id, sealed = Keyring.parse(keys).seal_payload(
        b"{}", event_id=event_id, content_type="application/json", event_type="invoice.paid"
    )
    db.execute(
        "SELECT webhook_publish_sealed(%s, 'invoice.paid', 'application/json', NULL, 2, %s, %s,"
        " NULL, 'here')",
        (event_id, key_id, sealed),
    )
    return event_id


def test_a_removed_subscription_ends_what_was_waiting(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run():
        sub, _ = subscribe(db, endpoint_keyring, receiver.url, state="paused", paused_reason="x")
        event_id = publish(db)
        settled(db, event_id, "ENCRYPTED")
        db.execute("UPDATE webhook_subscriptions SET removed_at = now() WHERE id = %s", (sub,))
        id_, _, _ = settled(db, event_id, "DLQ")
    assert receiver.requests == []
    row = db.execute("SELECT dead_reason FROM webhook_deliveries WHERE id = %s", (id_,)).fetchone()
    assert row == ("subscription_removed",)


@pytest.mark.parametrize(
    ("url", "headers", "reason"),
    [
        ("http://10.1.2.3/", None, "invalid_url"),
        ("ftp://127.0.0.1/", None, "invalid_url"),
        (None, {"Host": "evil"}, "invalid_header"),
        (None, {"X-Name": "a\r\nX-Evil: 1"}, "invalid_header"),
    ],
)
def test_what_was_written_past_the_checks_is_refused_when_it_is_sent(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring,
    url: str | None, headers: dict[str, str] | None, reason: str,
) -> None:  # fmt: skip
    with Receiver() as receiver, run():
        subscribe(db, endpoint_keyring, url or receiver.url, headers=headers)
        id_, _, attempts = settled(db, publish(db), "DLQ")
    assert attempts == 0
    assert receiver.requests == []
    row = db.execute("SELECT dead_reason FROM webhook_deliveries WHERE id = %s", (id_,)).fetchone()
    assert row == (reason,)


@both_transports
def test_a_drain_lets_what_is_in_flight_end_and_gives_the_rest_back(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, transport: str
) -> None:
    with Receiver(Answer(hold=True)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        with run(transport=transport) as running:
            event_id = publish(db)
            receiver.wait_for(1)
            running.stop.set()
            late = publish(db)
            receiver.release()
            settled(db, event_id, "DELIVERED")
        assert running.status == 0
    assert len(receiver.requests) == 1
    assert delivery_of(db, late) is None or delivery_of(db, late)[1] in ("ENCRYPTED", "RETRIED")  # type: ignore[index]


@both_transports
def test_kept_answers_are_sealed(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, transport: str
) -> None:
    body = b"why not \x00\xff" + bytes(range(256)) * 40
    with Receiver(Answer(500, {"X-Why": "nul"}, body)) as receiver, run(transport=transport):
        subscribe(db, endpoint_keyring, receiver.url, max_attempts=1)
        id_, _, _ = settled(db, publish(db), "DLQ")
    row = db.execute(
        "SELECT attempt, sealed FROM webhook_responses WHERE delivery_id = %s", (id_,)
    ).fetchone()
    assert row is not None
    assert b"why not" not in row[1]
    opened = endpoint_keyring.open(row[1], context=("response", str(id_), str(row[0])))
    assert b'"status": 500' in opened


@both_transports
def test_bytes_arrive_as_they_were_published(
    db: Connection[Any], run: Any, endpoint_keyring: Keyring, transport: str
) -> None:
    bodies = [
        b'{"b":1,  "a":1.10}\n', b'{"e":"\\u00e9 \xc3\xa9 \\/"}', b"9007199254740993",
        b'{"a":1,"a":2}', b"[]", bytes(range(256)), b"",
    ]  # fmt: skip
    with Receiver() as receiver, run(transport=transport):
        subscribe(db, endpoint_keyring, receiver.url)
        events = {str(publish(db, body)): hashlib.sha256(body).hexdigest() for body in bodies}
        receiver.wait_for(len(bodies))
    assert {
        got.header("webhook-id"): hashlib.sha256(got.body).hexdigest() for got in receiver.requests
    } == events


def test_what_came_in_clear_under_a_key_is_told_from_another_payload(
    db: Connection[Any], run: Any, keyring: Keyring
) -> None:
    with run():
        db.execute("SELECT webhook_publish('a.b', '{}', 'application/json', 'key-1')")
        row = eventually(
            lambda: db.execute(
                "SELECT mac FROM webhook_idempotency_keys WHERE mac IS NOT NULL"
            ).fetchone()
        )
    assert row is not None
    event = {"event_type": "a.b", "content_type": "application/json"}
    assert matches_fingerprint(keyring, row[0], payload=b"{}", **event)
    assert not matches_fingerprint(keyring, row[0], payload=b"[]", **event)
