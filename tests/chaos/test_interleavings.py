"""Workers that are stopped, killed, drained and slowed down while others, and people, go on."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from factories import subscribe, trail
from fencepost.errors import ConflictError, NotFoundError
from fencepost.keyring import Keyring
from fencepost.store import operators, subscriptions
from invariants import check
from programs import STOP, Program
from receiver import Answer, Received, Receiver, in_turn
from waiting import eventually

Start = Callable[..., Program]


def publish(db: Connection[Any], count: int = 1) -> list[UUID]:
    rows = db.execute(
        "SELECT webhook_publish('invoice.paid', '{}') FROM generate_series(1, %s)", (count,)
    ).fetchall()
    return [row[0] for row in rows]


def value(db: Connection[Any], query: str, *params: object) -> Any:
    row = db.execute(query, params).fetchone()
    return None if row is None else row[0]


def in_state(db: Connection[Any], *states: str) -> int:
    return int(
        value(
            db,
            "SELECT count(*) FROM webhook_deliveries WHERE current_state = ANY(%s)",
            list(states),
        )
    )


def only(db: Connection[Any]) -> UUID:
    """Give the only delivery there is."""
    (row,) = db.execute("SELECT id FROM webhook_deliveries").fetchall()
    return UUID(str(row[0]))


def test_a_request_that_was_about_to_leave_stays_when_its_lease_is_over(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        publish(db)
        # A stop takes effect a little later: it must find the thread still in this moment.
        stop = f"{STOP}; signal.sigtimedwait([], 0.2)"
        a = start("a", lease_seconds=1, moment="attempted", action=stop)
        eventually(lambda: in_state(db, "ATTEMPTED"))
        start("b", lease_seconds=1)
        eventually(lambda: in_state(db, "DELIVERED"))
        a.send(signal.SIGCONT)
        eventually(lambda: value(db, "SELECT count(*) FROM webhook_fenced_writes"))
        assert [got.header("fencepost-token") for got in receiver.requests] == ["2"]
        check(db, receiver.requests)


def test_a_worker_that_slept_alone_keeps_what_it_holds(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    """Its reaper wakes beside its heartbeat: the one must not take what the other keeps."""
    with Receiver(Answer(hold=True)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=1, deadline_seconds=60)
        publish(db)
        receiver.wait_for(1)
        for _ in range(3):
            a.send(signal.SIGSTOP)
            eventually(
                lambda: value(
                    db,
                    "SELECT lease_expires_at < now() - interval '1 s' FROM webhook_deliveries",
                )
            )
            a.send(signal.SIGCONT)
            eventually(lambda: value(db, "SELECT lease_expires_at > now() FROM webhook_deliveries"))
        receiver.release()
        eventually(lambda: in_state(db, "DELIVERED"))
        assert "LEASE_EXPIRED" not in trail(db, only(db))
        check(db, receiver.requests)


def test_c04_leases_come_back_without_their_workers_row(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(Answer(hold=True)) as receiver:
        for n in range(5):  # of one that has not answered yet, no five would be sent at once
            subscribe(db, endpoint_keyring, f"{receiver.url}/{n}")
        a = start("a", lease_seconds=1)
        publish(db)
        receiver.wait_for(5)
        a.send(signal.SIGKILL)
        a.wait()
        db.execute("DELETE FROM webhook_workers")
        receiver.release()
        start("b", lease_seconds=1)
        eventually(lambda: in_state(db, "DELIVERED") == 5)
        check(db, receiver.requests)


def test_c09_a_reaper_killed_at_work_leaves_no_lock_behind(
    db: Connection[Any], superuser_url: str, start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        dead = start("dead", lease_seconds=1, moment="claimed")
        publish(db, 5)
        dead.wait()
        with psycopg.connect(superuser_url) as blocker:
            blocker.execute("LOCK TABLE webhook_delivery_attempts IN SHARE ROW EXCLUSIVE MODE")
            a = start("a", lease_seconds=1)
            eventually(
                lambda: value(
                    db,
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    " AND application_name = 'fencepost worker reaper'",
                )
            )
            a.send(signal.SIGKILL)
            a.wait()
        start("b", lease_seconds=1)
        eventually(lambda: in_state(db, "DELIVERED") == 5)
        check(db, receiver.requests)


def test_c17_a_draining_worker_keeps_its_leases_until_its_last_answer(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(Answer(delay=3)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=1)
        publish(db)
        receiver.wait_for(1)
        start("b", lease_seconds=1)
        a.send(signal.SIGTERM)
        assert a.wait() == 0
        assert in_state(db, "DELIVERED") == 1
        assert len(receiver.requests) == 1
        assert "LEASE_EXPIRED" not in trail(db, only(db))
        check(db, receiver.requests)


def test_c19_a_worker_whose_heartbeats_are_too_slow_writes_nothing_it_has_lost(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    db.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$"
    )
    db.execute(
        "CREATE TRIGGER slow BEFORE UPDATE ON webhook_deliveries FOR EACH ROW"
        " WHEN (OLD.seq = NEW.seq) EXECUTE FUNCTION slow()"
    )
    with Receiver(in_turn(Answer(delay=4), 200)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        start("a", lease_seconds=1.5)
        publish(db)
        receiver.wait_for(1)
        start("b", lease_seconds=1.5)
        eventually(lambda: in_state(db, "DELIVERED"))
        told = trail(db, only(db))
        note = eventually(
            lambda: db.execute(
                "SELECT fencing_token, would_write FROM webhook_fenced_writes"
            ).fetchone()
        )
        assert note in ((1, "DELIVERED"), (1, "heartbeat"))
        assert trail(db, only(db)) == told
        assert told.count("LEASE_EXPIRED") == 1
        check(db, receiver.requests)


@pytest.mark.parametrize("concurrency", [1, 4], ids=["c23", "c25"])
def test_what_waits_for_a_slot_is_never_sent_twice(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring, concurrency: int
) -> None:
    with Receiver(Answer(delay=0.1)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        publish(db, 60 * concurrency)
        for name in ("a", "b"):
            start(name, lease_seconds=1, concurrency=concurrency)
        eventually(lambda: in_state(db, "DELIVERED") == 60 * concurrency)
        assert len(receiver.requests) == 60 * concurrency
        check(db, receiver.requests)


def test_c45_restarts_begin_no_new_budget(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(500) as receiver:
        subscribe(db, endpoint_keyring, receiver.url, max_attempts=4)
        publish(db)
        for n in range(4):
            assert start(f"w{n}", lease_seconds=1, moment="settled").wait() == -signal.SIGKILL
        assert in_state(db, "DLQ") == 1
        start("last", lease_seconds=1)
        receiver.script = in_turn(200)
        publish(db)
        eventually(lambda: in_state(db, "DELIVERED"))
        assert len(receiver.requests) == 5
        check(db, receiver.requests)


# everything at once


class Storm:
    """What people and machines do to a running system, at random moments."""

    def __init__(
        self, db: Connection[Any], url: str, start: Start, sub: UUID, chance: random.Random
    ) -> None:
        self._db, self._start, self._sub, self._chance = db, start, sub, chance
        self._people = psycopg.connect(url)
        self._workers: list[Program] = []
        self._started = 0
        self._wakes: list[tuple[float, Program]] = []

    def blow(self) -> None:
        what = self._chance.choice(
            [
                *([self._publish] * 4),
                *([self._sleep] * 6),
                *([self._replay, self._resume] * 2),
                *(self._discard, self._pause, self._drop_connections),
                self._chance.choice([self._kill, self._drain]),
            ]
        )
        what()
        self._wake(time.monotonic())
        self._workers = [worker for worker in self._workers if worker.is_running]
        while len(self._workers) < 3:
            self._begin()

    def calm(self) -> None:
        self._wake(float("inf"))
        self._resume()
        self._people.close()
        self._begin()  # the others may be draining

    def _begin(self) -> None:
        self._started += 1
        worker = self._start(f"w{self._started}", lease_seconds=1, concurrency=8)
        self._workers.append(worker)

    def _publish(self) -> None:
        publish(self._db, 6)

    def _some(self) -> UUID | None:
        found: UUID | None = value(
            self._db, "SELECT id FROM webhook_deliveries ORDER BY random() LIMIT 1"
        )
        return found

    def _act(self, act: Callable[..., object], id_: UUID | None) -> None:
        if id_ is not None:
            with suppress(ConflictError, NotFoundError), self._people.transaction():
                act(self._people, id_, actor="storm")

    def _replay(self) -> None:
        self._act(operators.replay_delivery, self._some())

    def _discard(self) -> None:
        self._act(operators.discard_delivery, self._some())

    def _pause(self) -> None:
        self._act(subscriptions.pause_subscription, self._sub)

    def _resume(self) -> None:
        self._act(subscriptions.resume_subscription, self._sub)

    def _kill(self) -> None:
        if self._workers:
            worker = self._chance.choice(self._workers)
            worker.send(signal.SIGKILL)
            worker.wait()

    def _drain(self) -> None:
        if self._workers:
            worker = self._chance.choice(self._workers)
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)

    def _sleep(self) -> None:
        if self._workers:
            worker = self._chance.choice(self._workers)
            worker.send(signal.SIGSTOP)
            self._wakes.append((time.monotonic() + self._chance.uniform(0.8, 2.5), worker))

    def _wake(self, now: float) -> None:
        for at, worker in self._wakes:
            if at <= now:
                worker.send(signal.SIGCONT)
        self._wakes = [wake for wake in self._wakes if wake[0] > now]

    def _drop_connections(self) -> None:
        self._db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name LIKE 'fencepost worker%' AND datname = current_database()"
            "   AND random() < 0.5"
        )


def mixed(chance: random.Random) -> Callable[[Received], Answer]:
    """A receiver in all its moods."""
    moods = [
        *([Answer(200)] * 3), *([Answer(200, delay=1.5), Answer(200, delay=0.8)] * 3),
        Answer(503, delay=0.8), Answer(503), Answer(404), Answer(end="in_head"),
        Answer(end="before_head", reset=True),
    ]  # fmt: skip
    guard = threading.Lock()

    def answer(_: Received) -> Answer:
        with guard:
            return chance.choice(moods)

    return answer


def test_a_storm_breaks_no_rule(
    db: Connection[Any], superuser_url: str, start: Start, endpoint_keyring: Keyring
) -> None:
    seed = int(os.environ.get("TEST_STORM_SEED") or time.time_ns() % 1_000_000)
    print(f"TEST_STORM_SEED={seed}")
    chance = random.Random(seed)
    until = time.monotonic() + float(os.environ.get("TEST_STORM_SECONDS", "15"))
    with Receiver(mixed(chance)) as receiver:
        sub, _ = subscribe(db, endpoint_keyring, receiver.url)
        storm = Storm(db, superuser_url, start, sub, chance)
        pause = threading.Event()
        while time.monotonic() < until:
            storm.blow()
            pause.wait(chance.uniform(0, 0.2))  # what is tried: any moment
        receiver.script = in_turn(200)
        storm.calm()
        eventually(
            lambda: (
                value(db, "SELECT NOT EXISTS (SELECT FROM webhook_outbox)")
                and in_state(db, "ENCRYPTED", "RETRIED", "LEASED", "ATTEMPTED") == 0
            ),
            within=60,
        )
        check(db, receiver.requests)
        assert len(receiver.requests) > 20
