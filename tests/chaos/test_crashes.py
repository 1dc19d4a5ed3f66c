"""Workers that die or sleep at the worst moment: nothing is lost, every duplicate is told."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from psycopg import Connection

from factories import subscribe, trail
from fencepost.keyring import Keyring
from invariants import check
from programs import STOP, Program
from receiver import Answer, Receiver, in_turn
from waiting import eventually

Start = Callable[..., Program]


def publish(db: Connection[Any], kind: str = "invoice.paid") -> UUID:
    row = db.execute("SELECT webhook_publish(%s, '{}')", (kind,)).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def wait_for(db: Connection[Any], event_id: UUID, state: str) -> tuple[UUID, int, int, str | None]:
    """Wait for the event's delivery to be in ``state``: id, attempts, token, reason of death."""

    def found() -> tuple[UUID, int, int, str | None] | None:
        return db.execute(
            "SELECT id, attempt_count, fencing_token, dead_reason FROM webhook_deliveries"
            " WHERE event_id = %s AND current_state = %s",
            (event_id, state),
        ).fetchone()

    row = eventually(found, within=60)
    assert row is not None
    return row


def ended_or(program: Program, condition: Callable[[], bool]) -> bool:
    return not program.is_running or condition()


def test_a_stopped_worker_is_fenced_out_and_its_delivery_stays_the_others(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(in_turn(Answer(hold=True), 200)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2)
        event_id = publish(db)
        receiver.wait_for(1)
        a.send(signal.SIGSTOP)
        start("b", lease_seconds=2)
        id_, attempts, token, _ = wait_for(db, event_id, "DELIVERED")
        told = trail(db, id_)
        receiver.release()
        a.send(signal.SIGCONT)
        row = eventually(
            lambda: db.execute(
                "SELECT worker_id, fencing_token, would_write FROM webhook_fenced_writes"
                " WHERE delivery_id = %s",
                (id_,),
            ).fetchone()
        )
        assert row is not None
        assert row[0].startswith("a-")
        assert row[1] == 1
        assert row[2] in ("DELIVERED", "heartbeat")
        # A goes on with its work: it was told, not broken.
        second = publish(db)
        wait_for(db, second, "DELIVERED")
        assert a.is_running
    assert (attempts, token) == (2, 2)
    assert (
        trail(db, id_)
        == told
        == [
            *("RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED"),
            *("LEASE_EXPIRED", "RETRIED", "LEASED", "ATTEMPTED", "DELIVERED"),
        ]
    )
    writers = db.execute(
        "SELECT state, split_part(worker_id, '-', 1), fencing_token FROM webhook_delivery_attempts"
        " WHERE delivery_id = %s AND seq > 2 ORDER BY seq",
        (id_,),
    ).fetchall()
    assert writers == [
        ("LEASED", "a", 1),
        ("ATTEMPTED", "a", 1),
        ("LEASE_EXPIRED", "a", 1),
        ("RETRIED", "b", 1),
        ("LEASED", "b", 2),
        ("ATTEMPTED", "b", 2),
        ("DELIVERED", "b", 2),
    ]
    first, again = [got for got in receiver.requests if got.header("webhook-id") == str(event_id)]
    assert first.header("webhook-id") == again.header("webhook-id")
    assert (first.header("fencepost-token"), again.header("fencepost-token")) == ("1", "2")
    check(db, receiver.requests)


def test_killed_after_attempted_the_attempt_counts_and_the_duplicate_is_told(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2, moment="answered")
        event_id = publish(db)
        assert a.wait() == -signal.SIGKILL
        start("b", lease_seconds=2)
        id_, attempts, token, _ = wait_for(db, event_id, "DELIVERED")
    assert (attempts, token) == (2, 2)
    assert len(receiver.requests) == 2
    assert trail(db, id_).count("LEASE_EXPIRED") == 1
    check(db, receiver.requests)


def test_killed_before_the_request_left_the_receiver_sees_one(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2, moment="attempted")
        event_id = publish(db)
        assert a.wait() == -signal.SIGKILL
        start("b", lease_seconds=2)
        _, attempts, token, _ = wait_for(db, event_id, "DELIVERED")
    assert (attempts, token) == (2, 2)
    assert len(receiver.requests) == 1
    check(db, receiver.requests)


def test_killed_before_attempted_no_attempt_is_used(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2, moment="claimed")
        event_id = publish(db)
        assert a.wait() == -signal.SIGKILL
        start("b", lease_seconds=2)
        id_, attempts, token, _ = wait_for(db, event_id, "DELIVERED")
    assert (attempts, token) == (1, 2)
    assert len(receiver.requests) == 1
    assert trail(db, id_) == [
        *("RECEIVED", "ENCRYPTED", "LEASED"),
        *("LEASE_EXPIRED", "RETRIED", "LEASED", "ATTEMPTED", "DELIVERED"),
    ]
    check(db, receiver.requests)


def test_killed_after_the_outcome_nothing_more_is_sent(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2, moment="settled")
        event_id = publish(db)
        assert a.wait() == -signal.SIGKILL
        start("b", lease_seconds=2)
        wait_for(db, publish(db), "DELIVERED")
        _, attempts, _, _ = wait_for(db, event_id, "DELIVERED")
    assert attempts == 1
    assert Counter(got.header("webhook-id") for got in receiver.requests)[str(event_id)] == 1
    check(db, receiver.requests)


def test_what_kills_its_worker_every_time_ends_as_a_crash_loop_and_its_neighbours_live(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    kill_for_poison = (
        "[os.kill(os.getpid(), signal.SIGKILL) for c in what if c.event_type == 'poison']"
    )
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        with db.transaction():
            neighbours = [publish(db) for _ in range(25)]
            poison = publish(db, "poison")
            neighbours += [publish(db) for _ in range(25)]

        def is_dead() -> bool:
            return bool(
                db.execute(
                    "SELECT FROM webhook_deliveries WHERE event_id = %s AND current_state = 'DLQ'",
                    (poison,),
                ).fetchall()
            )

        workers = 0
        while not is_dead():
            workers += 1
            assert workers <= 10
            dying = start(f"w{workers}", lease_seconds=1, moment="claimed", action=kill_for_poison)
            eventually(partial(ended_or, dying, is_dead), within=60)
        for event_id in neighbours:
            wait_for(db, event_id, "DELIVERED")
        _, attempts, _, reason = wait_for(db, poison, "DLQ")
    assert (attempts, reason) == (0, "crash_loop")
    assert str(poison) not in {got.header("webhook-id") for got in receiver.requests}
    check(db, receiver.requests)


def test_a_drain_ends_with_0_and_a_second_signal_leaves_at_once(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(in_turn(Answer(hold=True))) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a")
        publish(db)
        receiver.wait_for(1)
        a.send(signal.SIGTERM)
        eventually(lambda: "worker.draining" in a.log.read_text())
        assert a.is_running
        receiver.release()
        assert a.wait() == 0
        assert db.execute(
            "SELECT count(*) FROM webhook_deliveries WHERE current_state = 'DELIVERED'"
        ).fetchone() == (1,)
    with Receiver(Answer(hold=True)) as second:
        subscribe(db, endpoint_keyring, second.url, event_type_patterns=["x"])
        b = start("b")
        publish(db, "x")
        second.wait_for(1)
        b.send(signal.SIGTERM)
        eventually(lambda: "worker.draining" in b.log.read_text())
        b.send(signal.SIGTERM)
        assert b.wait(10) == 1
    check(db, receiver.requests + second.requests)


def test_a_slow_answer_outlives_its_lease_by_heartbeats(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver(Answer(delay=3)) as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        start("a", lease_seconds=1)
        start("b", lease_seconds=1)
        id_, attempts, _, _ = wait_for(db, publish(db), "DELIVERED")
    assert attempts == 1
    assert len(receiver.requests) == 1
    assert "LEASE_EXPIRED" not in trail(db, id_)
    check(db, receiver.requests)


def test_a_worker_stopped_between_claim_and_request_sends_nothing_it_has_lost(
    db: Connection[Any], start: Start, endpoint_keyring: Keyring
) -> None:
    with Receiver() as receiver:
        subscribe(db, endpoint_keyring, receiver.url)
        a = start("a", lease_seconds=2, moment="claimed", action=STOP)
        event_id = publish(db)
        eventually(
            lambda: db.execute(
                "SELECT 1 FROM webhook_deliveries WHERE current_state = 'LEASED'"
            ).fetchone()
        )
        start("b", lease_seconds=2)
        id_, _, _, _ = wait_for(db, event_id, "DELIVERED")
        a.send(signal.SIGCONT)
        row = eventually(
            lambda: db.execute(
                "SELECT would_write FROM webhook_fenced_writes WHERE delivery_id = %s", (id_,)
            ).fetchone()
        )
    assert row == ("ATTEMPTED",)
    assert len(receiver.requests) == 1
    check(db, receiver.requests)
