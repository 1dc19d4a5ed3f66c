"""An ordered subscription while its workers die and sleep: one at a time, in order, to the end."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from psycopg import Connection

from factories import publish, subscribe
from fencepost.keyring import Keyring
from fencepost.store.operators import replay_delivery
from invariants import check
from programs import Program
from receiver import Answer, Received, Receiver
from waiting import eventually

FAILS, DIES, KILLS, STOPS, WAITS, LAST = 3, 6, 9, 12, 15, 18

SEEN = [
    *(1, 2, FAILS, FAILS, FAILS, 4, 5),
    *(DIES, 7, 8),
    *(KILLS, KILLS, 10, 11),
    *(STOPS, STOPS, 13, 14),
    *(WAITS, DIES, 16, 17, LAST),  # the dead letter comes back at its old place: before all others
]
"""What the receiver must see: each number again after a failure, a lost lease or a replay."""

OTHERS = 20

# Requests whose predecessors had not ended when they left.
TOO_EARLY = """
    SELECT d.position, former.position, was.state
      FROM webhook_deliveries d
      JOIN webhook_delivery_attempts a ON a.delivery_id = d.id AND a.state = 'ATTEMPTED'
      JOIN webhook_deliveries former
        ON former.subscription_id = d.subscription_id AND former.position < d.position
     CROSS JOIN LATERAL (
           SELECT x.state FROM webhook_delivery_attempts x
            WHERE x.delivery_id = former.id AND x.created_at <= a.created_at
            ORDER BY x.seq DESC LIMIT 1) was
     WHERE d.is_ordered AND was.state NOT IN ('DELIVERED', 'DLQ')"""


class Script:
    """Fails, refuses and keeps waiting as the trial has it; ``gates`` let go who waits."""

    def __init__(self) -> None:
        self.gates = {number: threading.Event() for number in (KILLS, STOPS, WAITS)}
        self._answers = {FAILS: [503, 503], DIES: [400]}

    def __call__(self, received: Received) -> Answer:
        number = number_of(received)
        gate = self.gates.get(number)
        if gate is not None and received.header("fencepost-attempt") == "1":
            gate.wait()
        left = self._answers.get(number)
        return Answer(left.pop(0) if left else 200)


def number_of(received: Received) -> int:
    return int(json.loads(received.body).get("n", 0))


def numbers(receiver: Receiver) -> list[int]:
    """Give what the ordered subscription's receiver has seen, as it came."""
    return [number_of(got) for got in list(receiver.requests) if got.target == "/ordered"]


def publish_numbers(db: Connection[Any]) -> list[UUID]:
    """Publish each in a transaction of its own, after the former's commit."""
    ids = []
    for number in range(1, LAST + 1):
        row = db.execute("SELECT webhook_publish('o.x', %s)", (b'{"n":%d}' % number,)).fetchone()
        assert row is not None
        ids.append(row[0])
    return ids


def delivery_of(db: Connection[Any], event_id: UUID) -> tuple[UUID, str, str]:
    """Give the delivery of an event, its state and who holds it."""
    row = db.execute(
        "SELECT id, current_state, split_part(worker_id, '-', 1) FROM webhook_deliveries"
        " WHERE event_id = %s",
        (event_id,),
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def test_each_number_arrives_only_when_the_former_has_ended(
    db: Connection[Any],
    start: Callable[..., Program],
    endpoint_keyring: Keyring,
) -> None:
    script = Script()
    with Receiver(script) as receiver:
        subscribe(
            db,
            endpoint_keyring,
            f"{receiver.url}/ordered",
            event_type_patterns=["o.%"],
            ordered=True,
        )
        subscribe(db, endpoint_keyring, f"{receiver.url}/other", event_type_patterns=["f.%"])
        programs = {name: start(name, lease_seconds=2) for name in ("a", "b")}
        events = publish_numbers(db)

        def wait_for(number: int) -> Program:
            """Wait until its request is there; give the worker that sent it."""
            eventually(lambda: numbers(receiver)[-1:] == [number])
            return programs[delivery_of(db, events[number - 1])[2]]

        holder = wait_for(KILLS)
        # The head blocks its followers, and nobody else.
        publish(db, "f.x", OTHERS)
        eventually(lambda: count_delivered(db, "f.x") == OTHERS)
        assert numbers(receiver)[-1] == KILLS
        holder.send(signal.SIGKILL)
        script.gates[KILLS].set()
        programs["c"] = start("c", lease_seconds=2)

        holder = wait_for(STOPS)
        holder.send(signal.SIGSTOP)
        wait_for(WAITS)
        script.gates[STOPS].set()
        holder.send(signal.SIGCONT)
        eventually(lambda: count_fenced(db, events[STOPS - 1]))

        dead, state, _ = delivery_of(db, events[DIES - 1])
        assert state == "DLQ"
        with db.transaction():
            replay_delivery(db, dead, actor="dana", reason="mended")
        script.gates[WAITS].set()
        eventually(lambda: count_delivered(db, "o.x") == LAST)
        assert numbers(receiver) == SEEN
    assert db.execute(TOO_EARLY).fetchall() == []
    check(db, receiver.requests)


def count_delivered(db: Connection[Any], event_type: str) -> int:
    row = db.execute(
        "SELECT count(*) FROM webhook_deliveries"
        " WHERE current_state = 'DELIVERED' AND event_type = %s",
        (event_type,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def count_fenced(db: Connection[Any], event_id: UUID) -> int:
    row = db.execute(
        "SELECT count(*) FROM webhook_fenced_writes WHERE delivery_id = %s",
        (delivery_of(db, event_id)[0],),
    ).fetchone()
    assert row is not None
    return int(row[0])
