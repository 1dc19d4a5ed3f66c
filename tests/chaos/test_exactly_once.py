"""Receivers and workers die at the worst moments: every event has its effect exactly once."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
import requests
from psycopg import Connection

from example_receivers import COMMANDS, ExampleReceiver
from factories import subscribe
from fencepost.keyring import Keyring
from fencepost.store.operators import replay_delivery
from invariants import check
from programs import Program
from receiver import Answer, Received, Receiver
from waiting import eventually

Start = Callable[..., Program]

AFTER_THE_EFFECT: Final = 1
AT_THE_COMMIT: Final = 2
GATES: Final = f"""
    CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
        RETURN NULL;
    END $$;
    CREATE TRIGGER after_the_effect AFTER INSERT ON payments
        FOR EACH ROW EXECUTE FUNCTION pass_gate({AFTER_THE_EFFECT});
    CREATE CONSTRAINT TRIGGER at_the_commit AFTER INSERT ON payments DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass_gate({AT_THE_COMMIT});
"""
"""Where the test can hold a receiver's transactions, without a change to the receiver."""

BATCH: Final = 12


@pytest.fixture
def own(receivers_url: str) -> Iterator[Connection[Any]]:
    """The receiver's own database."""
    with psycopg.connect(receivers_url, autocommit=True) as connection:
        yield connection


def publish(db: Connection[Any], invoices: range) -> None:
    for number in invoices:
        event = {"type": "invoice.paid", "invoice": f"inv-{number}", "amount": number}
        db.execute("SELECT webhook_publish('invoice.paid', %s)", (json.dumps(event).encode(),))


def payments(own: Connection[Any]) -> list[tuple[Any, ...]]:
    return own.execute("SELECT invoice, amount FROM payments ORDER BY amount").fetchall()


def crash(
    receiver: ExampleReceiver, own: Connection[Any], gate: int, more: Callable[[], None]
) -> int:
    """Kill the receiver while transactions are held at ``gate``; give how many effects it left."""

    def count(query: str, *values: object) -> int:
        row = own.execute(query.encode(), values).fetchone()
        assert row is not None
        return int(row[0])

    held = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = %s"
        "   AND NOT l.granted"
    )
    others = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    own.execute("SELECT pg_advisory_lock(%s)", (gate,))
    before = len(payments(own))
    more()
    # A second one is there too: at the gate, or behind the first, with the same event.
    eventually(lambda: count(held, gate) and count(f"{others} AND wait_event_type = 'Lock'") > 1)
    receiver.kill()
    own.execute("SELECT pg_advisory_unlock(%s)", (gate,))
    eventually(lambda: count(others) == 0)
    after = len(payments(own))
    receiver.start()
    return after - before


def wait_until_delivered(db: Connection[Any], count: int) -> None:
    def states() -> list[tuple[Any, ...]]:
        return db.execute(
            "SELECT current_state, count(*) FROM webhook_deliveries GROUP BY 1"
        ).fetchall()

    eventually(lambda: states() == [("DELIVERED", count)], within=60)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_was_paid_is_exactly_what_was_published(
    name: str, db: Connection[Any], own: Connection[Any], receivers_url: str,
    start: Start, endpoint_keyring: Keyring, tmp_path: Path,
) -> None:  # fmt: skip
    with ExampleReceiver(name, receivers_url, tmp_path / "receiver.log") as receiver:
        own.execute(GATES)
        # Two subscriptions to one URL: each event comes twice, at the same moment.
        for _ in range(2):
            _, secret = subscribe(
                db, endpoint_keyring, receiver.url, max_attempts=50,
                backoff_base_seconds=0.2, backoff_cap_seconds=0.2,
            )  # fmt: skip
            receiver.secrets.append(secret)
        receiver.start()
        # A worker that dies between an answer and its outcome: the request comes again.
        publish(db, range(BATCH))
        assert start("a", lease_seconds=2, moment="answered").wait() == -signal.SIGKILL
        start("b", lease_seconds=2)

        def more(batch: int) -> Callable[[], None]:
            return lambda: publish(db, range(batch * BATCH, (batch + 1) * BATCH))

        assert crash(receiver, own, AFTER_THE_EFFECT, more(1)) == 0
        assert crash(receiver, own, AT_THE_COMMIT, more(2)) >= 1
        events = 3 * BATCH
        wait_until_delivered(db, 2 * events)
        published = [(f"inv-{number}", number) for number in range(events)]
        assert payments(own) == published
        # And all of it once more.
        for (id_,) in db.execute("SELECT id FROM webhook_deliveries").fetchall():
            with db.transaction():
                replay_delivery(db, id_, actor="dana", reason="again")
        wait_until_delivered(db, 2 * events)
    assert payments(own) == published
    seen = own.execute("SELECT count(*), min(requests) >= 4 FROM webhook_inbox").fetchone()
    assert seen == (events, True)
    check(db)


def test_a_request_of_a_worker_that_was_fenced_out_is_refused(
    db: Connection[Any], own: Connection[Any], receivers_url: str,
    start: Start, endpoint_keyring: Keyring, tmp_path: Path,
) -> None:  # fmt: skip
    answers: list[tuple[str, int]] = []
    is_late = threading.Event()

    def carry(received: Received) -> Answer:
        """Be a network that keeps the first request until the second was answered."""
        token = received.header("Fencepost-Token")
        if token == "1":
            assert is_late.wait(60)
        headers = {name: value for name, value in received.headers if name.lower() != "host"}
        answer = requests.post(example.url, received.body, headers=headers, timeout=30)
        answers.append((token, answer.status_code))
        return Answer(answer.status_code)

    with (
        ExampleReceiver("flask", receivers_url, tmp_path / "receiver.log") as example,
        Receiver(carry) as network,
    ):
        _, secret = subscribe(db, endpoint_keyring, network.url)
        example.secrets.append(secret)
        example.start()
        a = start("a", lease_seconds=2)
        publish(db, range(1))
        network.wait_for(1)
        a.send(signal.SIGSTOP)
        start("b", lease_seconds=2)
        wait_until_delivered(db, 1)
        is_late.set()
        a.send(signal.SIGCONT)
        fenced = "SELECT fencing_token FROM webhook_fenced_writes WHERE worker_id LIKE 'a-%'"
        eventually(lambda: db.execute(fenced).fetchone() == (1,))
        eventually(lambda: len(answers) == 2)
    assert answers == [("2", 204), ("1", 409)]
    assert payments(own) == [("inv-0", 0)]
    inbox = own.execute("SELECT fencing_token, requests FROM webhook_inbox").fetchall()
    assert inbox == [(2, 1)]
    check(db, network.requests)
