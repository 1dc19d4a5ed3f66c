"""The arithmetic of ``fencepost bench``: figures of a trail whose every moment is known."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from factories import make_subscription
from fencepost.bench import trail

TRAIL = """
    WITH made AS (
        INSERT INTO webhook_deliveries
               (id, event_id, subscription_id, event_type, current_state, seq, max_attempts,
                next_attempt_at, created_at)
        SELECT fencepost_uuid7(since), gen_random_uuid(), %(subscription)s, 'a.b', 'ENCRYPTED', 2,
               5, since, since
          FROM (SELECT %(since)s::timestamptz AS since) t, generate_series(0, 100)
        RETURNING id
    )
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, created_at)
    SELECT m.id, r.seq, r.state, %(since)s::timestamptz + r.seconds * interval '1 second'
      FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS n FROM made) m
     CROSS JOIN LATERAL (VALUES
           (1, 'RECEIVED', 1.0),
           (2, 'ENCRYPTED', 1.005),
           (3, 'LEASED', 1.005 + n * 0.001),
           (4, 'ATTEMPTED', 2.0),
           -- A hundred a second, but for the first and the last tenth, which take a second each.
           (5, 'DELIVERED', 3.0 + CASE WHEN n < 10 THEN n * 0.1
                                       WHEN n > 90 THEN 1.8 + (n - 90) * 0.1
                                       ELSE 1.0 + (n - 10) * 0.01 END)
           ) AS r(seq, state, seconds)
"""
"""A hundred and one deliveries; the n-th has waited for n milliseconds."""


@pytest.fixture
def subscription(superuser: Connection[Any]) -> UUID:
    return make_subscription(superuser)


@pytest.fixture
def since(superuser: Connection[Any], subscription: UUID) -> object:
    row = superuser.execute("SELECT fencepost_now()").fetchone()
    assert row is not None
    superuser.execute(TRAIL, {"subscription": subscription, "since": row[0]})
    return row[0]


def test_a_drain_counts_neither_its_start_nor_its_end(
    superuser: Connection[Any], since: object
) -> None:
    assert trail.drained_per_second(superuser, since) == pytest.approx(100)


def test_an_arrival_counts_from_the_first_event_to_the_last_outcome(
    superuser: Connection[Any], since: object
) -> None:
    assert trail.arrived_per_second(superuser, since) == pytest.approx(101 / 4.8)


def test_waits_begin_when_a_delivery_could_be_sent(
    superuser: Connection[Any], since: object, subscription: UUID
) -> None:
    found = trail.waits(superuser, since, [subscription])
    assert found is not None
    wait, ingest = map(asdict, found)
    assert wait == pytest.approx({"p50": 50, "p95": 95, "p99": 99})
    assert ingest == pytest.approx({"p50": 5, "p95": 5, "p99": 5})


def test_where_nothing_happened_there_is_no_figure(superuser: Connection[Any]) -> None:
    subscription = make_subscription(superuser)
    assert trail.drained_per_second(superuser, "infinity") is None
    assert trail.arrived_per_second(superuser, "infinity") is None
    assert trail.waits(superuser, "-infinity", [subscription]) is None
