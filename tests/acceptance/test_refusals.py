"""What the database refuses to a superuser and to a worker alike; each refusal is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from fencepost.store.pool import connect
from installation import Fencepost
from waiting import eventually

ILLEGAL = {
    "an illegal move": (
        "UPDATE webhook_deliveries SET current_state = 'RECEIVED', seq = seq + 1"
        " WHERE id = %(delivery)s"
    ),
    "a move past the attempt": (
        "UPDATE webhook_deliveries SET current_state = 'LEASED', seq = seq + 1,"
        " worker_id = 'me', lease_expires_at = fencepost_now(), fencing_token = fencing_token + 1"
        " WHERE id = %(delivery)s"
    ),
    "UPDATE of a trail row": (
        "UPDATE webhook_delivery_attempts SET state = 'FAILED' WHERE delivery_id = %(delivery)s"
    ),
    "DELETE of a trail row": (
        "DELETE FROM webhook_delivery_attempts WHERE delivery_id = %(delivery)s AND seq = 5"
    ),
    "TRUNCATE of the trail": "TRUNCATE webhook_delivery_attempts",
    "TRUNCATE of one partition": "TRUNCATE {partition}",
    "DELETE in one partition": "DELETE FROM {partition}",
}
"""Of a delivery that is DELIVERED."""


@pytest.fixture
def people(fencepost: Fencepost, db_url: str) -> Iterator[Mapping[str, Connection[Any]]]:
    with ExitStack() as stack:
        worker = stack.enter_context(connect(db_url, role="worker"))
        yield {"superuser": fencepost.db, "fencepost_worker": worker}


def test_neither_superuser_nor_worker_can_falsify_a_delivery(
    fencepost: Fencepost,
    people: Mapping[str, Connection[Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    receiver = fencepost.start_receiver("receiver", "200")
    fencepost.run("subscription", "add", "orders", receiver.url)
    with fencepost.start_worker("a"):
        fencepost.run("publish", "invoice.paid", "--data", "{}")
        eventually(lambda: fencepost.rows("SELECT FROM webhook_deliveries"))
        eventually(fencepost.is_settled)
    ((delivery, partition),) = fencepost.rows(
        "SELECT DISTINCT delivery_id, tableoid::regclass::text FROM webhook_delivery_attempts"
    )
    whole = fencepost.rows("SELECT d, a FROM webhook_deliveries d, webhook_delivery_attempts a")
    told = []
    for who, conn in people.items():
        for what, statement in ILLEGAL.items():
            with pytest.raises(psycopg.Error) as caught:
                conn.execute(statement.format(partition=partition).encode(), {"delivery": delivery})
            assert caught.value.sqlstate in ("23514", "42501")
            told.append(f"{who}, {what}:\n    {caught.value.diag.message_primary}")
    with capsys.disabled():
        print("\n" + "\n".join(told))
    assert whole == fencepost.rows(
        "SELECT d, a FROM webhook_deliveries d, webhook_delivery_attempts a"
    )
