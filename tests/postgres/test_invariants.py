"""The rules find nothing on what workers wrote, and each finds what is broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from factories import make_deliveries, make_subscription
from fencepost.model import ErrorClass
from fencepost.states import Cause, State
from fencepost.store.leases import Room, attempt_many, claim_due
from fencepost.store.operators import discard_delivery, replay_delivery
from fencepost.store.settlements import Settlement, settle_many
from invariants import broken, check
from receiver import Received

LEASE = timedelta(seconds=30)


@pytest.fixture
def db(superuser: Connection[Any]) -> Iterator[Connection[Any]]:
    with superuser.transaction(force_rollback=True):
        for table in ("webhook_deliveries", "webhook_delivery_attempts"):
            superuser.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield superuser


def send(db: Connection[Any], cause: Cause, **more: Any) -> list[Received]:
    room = Room(slots=10, share=10)
    leases = [one.lease for one in claim_due(db, worker_id="a", lease=LEASE, room=room).claimed]
    rows = attempt_many(db, [(one, "u", 1) for one in leases], worker_id="a", lease=LEASE)
    settle_many(
        db, [Settlement(one, State.ATTEMPTED, cause, **more) for one in leases], worker_id="a"
    )
    return [
        received(db, one.delivery_id, rows[one.delivery_id].attempt_count, one.fencing_token)
        for one in leases
    ]


def received(db: Connection[Any], id_: UUID, attempt: int, token: int) -> Received:
    row = db.execute("SELECT event_id FROM webhook_deliveries WHERE id = %s", (id_,)).fetchone()
    assert row is not None
    headers = (
        ("Fencepost-Delivery", str(id_)),
        ("webhook-id", str(row[0])),
        ("Fencepost-Attempt", str(attempt)),
        ("Fencepost-Token", str(token)),
    )
    return Received(0.0, "POST", "/", headers, b"")


@pytest.fixture
def history(db: Connection[Any]) -> tuple[UUID, UUID, list[Received]]:
    """One that failed and was delivered, one that was dead, replayed, failed and given up."""
    sub = make_subscription(db)
    (well,) = make_deliveries(db, sub)
    seen = send(db, Cause.RETRY, delay=timedelta(), error=ErrorClass.TIMEOUT)
    seen += send(db, Cause.SUCCEED, status=200)
    (dead,) = make_deliveries(db, sub)
    seen += send(db, Cause.REJECT, status=404, error=ErrorClass.HTTP_4XX, reason="not_retryable")
    replay_delivery(db, dead, actor="dana")
    seen += send(db, Cause.EXHAUST, error=ErrorClass.TIMEOUT, reason="budget_spent")
    discard_delivery(db, dead, actor="dana")
    return well, dead, seen


def test_what_was_written_by_the_rules_breaks_none(
    db: Connection[Any], history: tuple[UUID, UUID, list[Received]]
) -> None:
    check(db, history[2])


@pytest.mark.parametrize(
    ("rule", "harm"),
    [
        ("I2", "DELETE FROM webhook_delivery_attempts WHERE delivery_id = %(well)s AND seq = 4"),
        (
            "I3",
            (
                "UPDATE webhook_delivery_attempts SET state = 'RELEASED'"
                " WHERE delivery_id = %(well)s AND state = 'FAILED'"
            ),
        ),
        (
            "I3",
            (
                "UPDATE webhook_delivery_attempts SET state = 'ATTEMPTED'"
                " WHERE delivery_id = %(well)s AND state = 'LEASED'"
            ),
        ),
        ("I4", "UPDATE webhook_deliveries SET seq = seq + 1 WHERE id = %(well)s"),
        ("I5", "UPDATE webhook_deliveries SET fencing_token = 9 WHERE id = %(well)s"),
        (
            "I5",
            (
                "UPDATE webhook_delivery_attempts SET fencing_token = 1"
                " WHERE delivery_id = %(well)s AND seq > 6"
            ),
        ),
        (
            "I6",
            (
                "UPDATE webhook_delivery_attempts SET worker_id = 'b'"
                " WHERE delivery_id = %(well)s AND seq = 4"
            ),
        ),
        (
            "I7",
            (
                "UPDATE webhook_delivery_attempts SET worker_id = 'b'"
                " WHERE delivery_id = %(well)s AND state = 'DELIVERED'"
            ),
        ),
        (
            "I7",
            (
                "INSERT INTO webhook_fenced_writes"
                " (delivery_id, worker_id, fencing_token, would_write)"
                " VALUES (%(well)s, 'a', 1, 'RETRIED')"
            ),
        ),
        ("I13", "UPDATE webhook_deliveries SET attempt_count = 7 WHERE id = %(well)s"),
        (
            "I27",
            "UPDATE webhook_deliveries SET max_attempts = 1 WHERE id = %(well)s",
        ),
        ("I27", "UPDATE webhook_deliveries SET dead_reason = 'x' WHERE id = %(dead)s"),
    ],
)
def test_each_rule_finds_what_is_broken(
    db: Connection[Any], history: tuple[UUID, UUID, list[Received]], rule: str, harm: str
) -> None:
    well, dead, seen = history
    db.execute(harm, {"well": well, "dead": dead})
    assert rule in {name.partition(" ")[0] for name in broken(db, seen)}


def test_the_wire_is_compared_with_the_trail(
    db: Connection[Any], history: tuple[UUID, UUID, list[Received]]
) -> None:
    well, dead, seen = history
    for rule, requests in {
        "I10": [*seen, received(db, well, 3, 3)],
        "I11": [*seen, seen[0]],
        "I14": [one for one in seen if one.header("fencepost-delivery") != str(well)],
        "I15": [*seen, *(received(db, dead, n % 2 + 1, n % 2 + 1) for n in range(3))],
        "I23": [
            *seen[1:],
            Received(0.0, "POST", "/", (*seen[0].headers[:1], *seen[2].headers[1:]), b""),
        ],
    }.items():
        assert rule in {name.partition(" ")[0] for name in broken(db, requests)}, rule


def test_an_event_that_met_nobody_is_found(db: Connection[Any]) -> None:
    make_subscription(db)
    db.execute(
        "INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node)"
        " VALUES (gen_random_uuid(), 'a.b', 'application/json', 2, 'here')"
    )
    assert {name.partition(" ")[0] for name in broken(db)} == {"I1"}
