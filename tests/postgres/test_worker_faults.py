"""What a worker makes of a database that is refused, changed, locked or away under it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection, sql

from factories import make_subscription, pass_time, subscribe, trail
from fencepost.keyring import Keyring
from fencepost.store.pool import connect
from invariants import check
from line import Line
from receiver import Answer, Receiver
from waiting import eventually
from worker import hooks
from worker.build import Worker
from worker.doze import Doze
from worker.fanout import FanOut
from worker.link import Link
from workers import WorkerThread

Start = Callable[..., WorkerThread]


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def run(settings: Any, db_url: str) -> Start:
    def start(url: str | None = None, **chosen: object) -> WorkerThread:
        return WorkerThread(Worker(settings(url or db_url, **chosen)))

    return start


@pytest.fixture
def listen() -> Iterator[Callable[..., None]]:
    """Listen to moments of the workers in this process, until the test ends."""
    moments: list[str] = []

    def begin(moment: str, listener: Callable[[object], None]) -> None:
        moments.append(moment)
        hooks.listen(moment, listener)

    yield begin
    for moment in moments:
        hooks.listen(moment, lambda _: None)


def publish(db: Connection[Any]) -> UUID:
    row = db.execute("SELECT webhook_publish('invoice.paid', '{}')").fetchone()
    assert row is not None
    return UUID(str(row[0]))


def wait_for(db: Connection[Any], event_id: UUID, state: str) -> UUID:
    row = eventually(
        lambda: db.execute(
            "SELECT id FROM webhook_deliveries WHERE event_id = %s AND current_state = %s",
            (event_id, state),
        ).fetchone()
    )
    assert row is not None
    return UUID(str(row[0]))


def test_a_batch_that_cannot_be_prepared_is_given_back_and_makes_no_suspects(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run(lease_seconds=1):
        subscribe(db, endpoint_keyring, receiver.url)
        db.execute("REVOKE SELECT ON webhook_signing_secrets FROM fencepost_worker")
        event_id = publish(db)
        id_ = wait_for(db, event_id, "RETRIED")
        assert trail(db, id_)[2:] == ["LEASED", "RELEASED", "RETRIED"]
        db.execute("GRANT SELECT ON webhook_signing_secrets TO fencepost_worker")
        db.execute("UPDATE webhook_deliveries SET next_attempt_at = now()")
        wait_for(db, event_id, "DELIVERED")
        check(db, receiver.requests)
    row = db.execute("SELECT attempt_count, expiries FROM webhook_deliveries").fetchone()
    assert row == (1, 0)


def test_a_column_that_changes_its_type_is_taken_as_it_is(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run():
        subscribe(db, endpoint_keyring, receiver.url)
        for _ in range(8):  # more often than it takes to be prepared by the server
            wait_for(db, publish(db), "DELIVERED")
        db.execute("ALTER TABLE webhook_subscriptions ALTER COLUMN config_version TYPE bigint")
        wait_for(db, publish(db), "DELIVERED")
        db.execute("ALTER TABLE webhook_deliveries ADD COLUMN note text")
        wait_for(db, publish(db), "DELIVERED")
        check(db, receiver.requests)


def test_a_row_that_is_refused_costs_no_other_and_is_not_logged(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute(
        "ALTER TABLE webhook_delivery_attempts ADD CONSTRAINT odd"
        " CHECK (error_message NOT LIKE '%token-in-a-path%')"
    )
    away = Answer(302, {"Location": "http://127.0.0.1/token-in-a-path"})
    with Receiver(away) as odd, Receiver(200) as well, run() as running:
        subscribe(db, endpoint_keyring, odd.url)
        subscribe(db, endpoint_keyring, well.url)
        for event_id in [publish(db) for _ in range(5)]:
            wait_for(db, event_id, "DELIVERED")
            wait_for(db, event_id, "DLQ")
        assert running.end() == 0
        check(db, odd.requests + well.requests)
    assert "settle.refused" in caplog.text
    assert "token-in-a-path" not in caplog.text


def test_outcomes_that_cannot_be_written_are_kept_and_nothing_more_leaves(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver, run(concurrency=4) as running:
        subscribe(db, endpoint_keyring, receiver.url)
        db.execute("REVOKE INSERT ON webhook_responses FROM fencepost_worker")
        events = [publish(db) for _ in range(40)]
        eventually(lambda: not running.worker.is_well)
        sent = len(receiver.requests)
        assert sent < 40
        db.execute("GRANT INSERT ON webhook_responses TO fencepost_worker")
        for event_id in events:
            wait_for(db, event_id, "DELIVERED")
        check(db, receiver.requests)
        assert len(receiver.requests) == 40


def test_an_outcome_that_cannot_be_judged_is_ours_and_keeps_nothing_held(
    db: Connection[Any], run: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(503) as receiver, run() as running:
        subscribe(db, endpoint_keyring, receiver.url, backoff_base_seconds=1e300,
                  backoff_cap_seconds=1e300)  # fmt: skip
        id_ = wait_for(db, publish(db), "RETRIED")
        assert running.end() == 0
    row = db.execute(
        "SELECT attempt_count - budget_start, last_status, last_error,"
        " next_attempt_at > now() + interval '30 s' FROM webhook_deliveries WHERE id = %s",
        (id_,),
    ).fetchone()
    assert row == (0, 503, "local_error", True)


def test_a_drain_without_a_database_ends_well_when_nothing_is_held(
    db_url: str, run: Start, listen: Callable[..., None]
) -> None:
    has_beaten = threading.Event()
    listen("beat", lambda _: has_beaten.set())
    with Line(db_url) as line, run(line.url) as running:
        assert has_beaten.wait(30)
        line.cut()
        began = time.monotonic()
        assert running.end() == 0
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("is_attempted", [False, True])
def test_a_drain_ends_what_an_outage_left_in_hand(
    db: Connection[Any],
    db_url: str,
    run: Start,
    endpoint_keyring: Keyring,
    listen: Callable[..., None],
    *,
    is_attempted: bool,
) -> None:
    """Away after the claim, or with the attempt's answer; then it is told to stop."""
    with Receiver() as receiver, Line(db_url) as line:
        subscribe(db, endpoint_keyring, receiver.url)
        if is_attempted:
            line.lose_the_answer_to("attempt_count = d.attempt_count + 1", then_cut=True)
        else:
            listen("claimed", lambda _: line.cut())
        with run(line.url) as running:
            event_id = publish(db)
            eventually(lambda: line.is_cut)
            running.stop.set()
            # It stops claiming first; what it has in hand may be with the settler by then.
            eventually(lambda: "claim" not in {thread.name for thread in threading.enumerate()})
            line.mend()
            assert running.end() == 0
        check(db, receiver.requests)
        assert receiver.requests == []
    row = db.execute(
        "SELECT current_state, attempt_count - budget_start, expiries FROM webhook_deliveries"
        " WHERE event_id = %s",
        (event_id,),
    ).fetchone()
    assert row == ("RETRIED", 0, 0)


def test_a_worker_asks_for_what_its_statements_were_written_for(
    db: Connection[Any], db_url: str
) -> None:
    row = db.execute("SELECT current_database()").fetchone()
    assert row is not None
    for setting in (
        "default_transaction_isolation = 'repeatable read'",
        "synchronous_commit = off",
        "DateStyle = 'German'",
        "TimeZone = 'Asia/Kathmandu'",
    ):
        db.execute(sql.SQL("ALTER DATABASE {} SET " + setting).format(sql.Identifier(row[0])))
    with connect(db_url, role="worker") as conn:
        found = conn.execute(
            "SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit')"
        ).fetchone()
        moment = conn.execute("SELECT '2026-11-30 12:00:00+00'::timestamptz").fetchone()
    assert found == ("read committed", "on")
    assert moment is not None
    assert moment[0].isoformat() == "2026-11-30T12:00:00+00:00"


@pytest.mark.parametrize("days", [30, -30])
def test_a_day_without_a_partition_is_given_one_on_the_spot(
    db: Connection[Any], db_url: str, keyring: Keyring, days: int
) -> None:
    """No worker was there to make it in time, or the clock jumped."""
    make_subscription(db)
    pass_time(db, days * 86_400)
    db.execute("UPDATE webhook_subscriptions SET created_at = fencepost_now()")
    publish(db)
    link = Link(db_url, name="test")
    fan_out = FanOut(
        link,
        keyring=keyring,
        worker_id="w",
        on_new=lambda: None,
        doze=Doze(bell_works=lambda: False, clock=lambda: 0.0),
    )
    assert fan_out() == 0  # made the partition, and asks to be called again
    fan_out()
    link.close()
    assert db.execute("SELECT count(*) FROM webhook_deliveries").fetchone() == (1,)
    check(db)


def test_an_idle_worker_leaves_the_database_alone(db: Connection[Any], run: Start) -> None:
    """Also with thousands of subscriptions that all sleep."""
    db.execute(
        "INSERT INTO webhook_subscriptions (id, name, endpoint_sealed, endpoint_origin,"
        " endpoint_masked) SELECT gen_random_uuid(), n::text, '', '', ''"
        " FROM generate_series(1, 3000) AS n"
    )
    db.execute(
        "INSERT INTO webhook_deliveries (id, event_id, subscription_id, event_type, current_state,"
        " seq, next_attempt_at) SELECT gen_random_uuid(), gen_random_uuid(), id, 'a',"
        " 'ENCRYPTED', 2, now() + interval '1 day' FROM webhook_subscriptions"
    )

    def statements() -> int:
        db.execute("SELECT pg_stat_clear_snapshot()")
        row = db.execute(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    with run():
        pause = threading.Event()
        pause.wait(2)  # what is tried: what it does in its time
        before = statements()
        pause.wait(4)
        assert statements() - before <= 4 * 20
