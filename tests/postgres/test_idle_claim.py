"""When an idle worker looks again: not before something is due, and not long after."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from conftest import MakeSettings
from factories import DUE, make_deliveries, make_subscription
from fencepost.store.leases import Room, claim_due
from worker.attempt import Sender
from worker.claim import LOOK_SECONDS, SOONEST_SECONDS, Claim
from worker.link import Link
from worker.prepare import Preparer
from worker.roster import Roster
from worker.transport.choice import make_transport


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        conn.execute(
            "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
            f" AS $$ SELECT timestamptz '{datetime.now(UTC)}' $$"
        )
        yield conn


@pytest.fixture
def claim(db_url: str, settings: MakeSettings) -> Iterator[Claim]:
    """A claim step; its clock stands still, and so does the database's."""
    link, chosen = Link(db_url, name="claim"), settings(db_url)
    endpoint_keyring = chosen.endpoint_keyring()
    roster = Roster(concurrency=8, share=8, backlog=8, clock=lambda: 0.0)
    transport = make_transport(chosen)
    yield Claim(
        link,
        worker_id="w",
        lease=timedelta(seconds=30),
        roster=roster,
        preparer=Preparer(chosen, keyring=chosen.keyring(), endpoint_keyring=endpoint_keyring),
        sender=Sender(
            transport,
            roster=roster,
            settle=lambda _: None,
            endpoint_keyring=endpoint_keyring,
            keep_responses="none",
            chance=random.Random(1),
            report=lambda _flight, _settlement: None,
            on_free=lambda: None,
        ),
        settle=lambda _: None,
        may_claim=lambda: True,
        is_stopping=lambda: False,
        patience=30,
        clock=lambda: 0.0,
        chance=random.Random(1),
    )
    transport.close(wait=0)
    link.close()


def sleeping(db: Connection[Any], sub: UUID, seconds: float, *, lane: int = 0) -> UUID:
    (id_,) = make_deliveries(db, sub, due=f"{DUE} + interval '{seconds} s'", lane=lane)
    return id_


def next_due(db: Connection[Any]) -> float | None:
    found = claim_due(db, worker_id="w", lease=timedelta(seconds=30), room=Room(slots=8, share=8))
    return found.due_in


def test_a_claim_says_when_the_next_is_due(db: Connection[Any]) -> None:
    assert next_due(db) is None
    one, other, ordered = (make_subscription(db, ordered=n == 2) for n in range(3))
    sleeping(db, one, 300)
    sleeping(db, one, 400)
    assert next_due(db) == 300
    sleeping(db, other, 200, lane=1)
    assert next_due(db) == 200
    for place, seconds in enumerate((100, 1)):  # the second one not before the first
        db.execute(
            "UPDATE webhook_deliveries SET is_ordered = true, position = %s WHERE id = %s",
            (place, sleeping(db, ordered, seconds)),
        )
    assert next_due(db) == 100


def test_what_is_paused_is_not_waited_for(db: Connection[Any]) -> None:
    sleeping(db, make_subscription(db), 300)
    db.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'operator',"
        " paused_at = fencepost_now()"
    )
    assert next_due(db) is None


def test_what_is_due_and_cannot_start_is_not_waited_for(db: Connection[Any]) -> None:
    """Else a worker that lacks the room would look again and again."""
    make_deliveries(db, make_subscription(db, max_in_flight=1), 2)
    assert next_due(db) is None


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [(60, LOOK_SECONDS), (0.125, 0.125), (0.001, SOONEST_SECONDS)],
)
def test_an_idle_worker_looks_again_when_a_retry_is_due(
    db: Connection[Any], claim: Claim, seconds: float, wait: float
) -> None:
    sleeping(db, make_subscription(db), seconds)
    assert claim() == wait
