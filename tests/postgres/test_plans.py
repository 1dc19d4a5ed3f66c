"""Every statement of the worker keeps its plan, whatever the planner believes.

With 300,000 deliveries waiting: statistics from now, from when the table was empty, from
when nothing was waiting, and none at all; planned for the values and planned once for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int8Dumper

from conftest import _create
from factories import make_deliveries, make_subscription
from fencepost.store.leases import FIRST, Room, attempt_many, claim_due
from fencepost.store.queries import load

WAITING = 300_000
BATCH = 200
LEASE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def crowded(server: Any, template: str) -> Iterator[Connection[Any]]:
    """A database with 300,000 waiting, of 101 subscriptions; the planner is told by the test."""
    _create(server, "test_plans", template)
    with psycopg.connect(server.superuser_url("test_plans"), autocommit=True) as conn:
        conn.adapters.register_dumper(int, Int8Dumper)
        conn.execute("ALTER TABLE webhook_deliveries SET (autovacuum_enabled = off)")
        conn.execute("ANALYZE webhook_deliveries")
        subs = [make_subscription(conn) for _ in range(101)]
        for sub in subs[1:]:
            make_deliveries(conn, sub, 100, due="fencepost_now() + interval '1 day' * (n %% 3)")
        make_deliveries(conn, subs[0], WAITING - 10_000)
        yield conn


@pytest.fixture(params=["stale", "fresh"])
def statistics(request: pytest.FixtureRequest, crowded: Connection[Any]) -> Connection[Any]:
    """First as it is: analysed while empty. Then analysed."""
    if request.param == "fresh":
        crowded.execute("ANALYZE webhook_deliveries")
    return crowded


def hold(conn: Connection[Any], name: str) -> list[UUID]:
    """Bring a batch to where the statement expects it: what nobody held when ANALYZE ran."""
    if name in ("claim_due", "reap_expired"):
        return []
    room = Room(slots=BATCH, share=BATCH)
    claims = claim_due(conn, worker_id="w", lease=LEASE, room=room).claimed
    assert len(claims) == BATCH
    if name != "attempt_many":
        attempt_many(conn, [(one.lease, "u", 1) for one in claims], worker_id="w", lease=LEASE)
    return [one.lease.delivery_id for one in claims]


def parameters(name: str, ids: list[UUID]) -> dict[str, Any]:
    n = len(ids)
    guarded = {"worker_id": "w", "lease": LEASE, "ids": ids, "tokens": [1] * n}
    return {
        "claim_due": {
            "worker_id": "w",
            "lease": LEASE,
            "cursor": FIRST,
            "visits": 200,
            "turn": 0,
            "slots": BATCH,
            "share": 32,
            "suspects": 1,
            "slots_full_at": None,
            "known_subscriptions": [],
            "known_held": [],
            "known_shares": [],
            "known_waited_for": [],
            "known_waited_at": [],
        },
        "attempt_many": {**guarded, "urls": ["u"] * n, "config_versions": [1] * n},
        "renew_many": guarded,
        "list_lost": guarded,
        "reap_expired": {"worker_id": "w", "batch": BATCH},
        "settle_many": {
            **guarded,
            "from_states": ["ATTEMPTED"] * n,
            "to_states": ["DELIVERED"] * n,
            "facts": [None] * n,
            "is_outcomes": [True] * n,
            "delays": [None] * n,
            "refunds": [0] * n,
            "statuses": [200] * n,
            "latencies": [1] * n,
            "errors": [None] * n,
            "messages": [None] * n,
            "details": [Jsonb({})] * n,
            "reasons": [None] * n,
            "responses": [None] * n,
            "pauses": [False] * n,
            "notes": ["DELIVERED"] * n,
        },
    }[name]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("leases.sql", "claim_due"),
        ("leases.sql", "attempt_many"),
        ("leases.sql", "renew_many"),
        ("leases.sql", "list_lost"),
        ("leases.sql", "reap_expired"),
        ("settlements.sql", "settle_many"),
    ],
)
def test_no_plan_reads_a_table_or_a_whole_index(
    statistics: Connection[Any], file: str, name: str, mode: str
) -> None:
    conn = statistics
    text = getattr(load(file), name)
    with conn.transaction(force_rollback=True):
        params = parameters(name, hold(conn, name))
        conn.execute(f"SET LOCAL plan_cache_mode = {mode}")
        row = conn.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + text, params, prepare=True
        ).fetchone()
    assert row is not None
    (explained,) = row[0]
    for node in nodes(explained["Plan"]):
        if not str(node.get("Relation Name", "")).startswith(
            ("webhook_deliveries", "webhook_delivery_attempts")
        ):
            continue
        if node["Node Type"] == "ModifyTable" or not node["Actual Loops"]:
            continue
        assert node["Node Type"] in ("Index Scan", "Index Only Scan"), node
        if name in ("attempt_many", "renew_many", "list_lost", "settle_many"):
            assert node["Index Name"].endswith("_pkey"), node
    # What is read: some pages for each row of the batch, and nothing that grows with the backlog.
    touched = explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"]
    assert touched < 60 * BATCH
