"""What people look at is found by index, whatever they filter by, at any depth.

The plans are those of the real calls, as auto_explain reports them, over 300,000 deliveries
of 101 subscriptions with their trails: mostly delivered, some dead, some waiting, few held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.numeric import Int8Dumper

from conftest import _create
from factories import make_subscription, stop_time
from fencepost.figures import Window
from fencepost.filters import DeliveryFilter
from fencepost.store import deliveries, discards, failing, giving_up, replays, requeue, standing
from fencepost.store.conditions import read_clock
from plans import Explained

ROWS = 300_000
FILL = """
    INSERT INTO webhook_deliveries
           (id, event_id, subscription_id, event_type, current_state, seq, attempt_count,
            next_attempt_at, fencing_token, worker_id, lease_expires_at, last_status, last_error,
            dead_at, dead_reason, created_at, updated_at)
    SELECT fencepost_uuid7(at), fencepost_uuid7(at), sub, 'invoice.paid', state, 5, 1,
           CASE WHEN state IN ('RETRIED', 'LEASED') THEN at + interval '2 days' END, 1,
           CASE WHEN state = 'LEASED' THEN 'w-1' END, CASE WHEN state = 'LEASED' THEN at END,
           CASE state WHEN 'DLQ' THEN 404 WHEN 'RETRIED' THEN 503 ELSE 200 END,
           CASE state WHEN 'DLQ' THEN 'http_4xx' WHEN 'RETRIED' THEN 'http_5xx' END,
           CASE WHEN state = 'DLQ' THEN at + interval '1 minute' END,
           CASE WHEN state = 'DLQ' THEN 'http_4xx' END, at, at
      FROM (SELECT now() - interval '20 hours' + n * interval '0.2 seconds' AS at,
                   (%(subs)s::uuid[])[CASE WHEN n %% 3 = 0 THEN 1 ELSE 1 + n %% 101 END] AS sub,
                   CASE WHEN n %% 31 = 5 THEN 'DLQ' WHEN n %% 40 = 1 THEN 'RETRIED'
                        WHEN n %% 3000 = 7 THEN 'LEASED' ELSE 'DELIVERED' END AS state
              FROM generate_series(1, %(rows)s) AS n) made
"""
TRAIL = """
    INSERT INTO webhook_delivery_attempts
           (delivery_id, seq, state, worker_id, fencing_token, created_at)
    SELECT d.id, s.seq, s.state, 'w-' || (s.seq % 3), 1, d.created_at + s.seq * interval '1 ms'
      FROM webhook_deliveries d,
           (VALUES (1, 'RECEIVED'), (2, 'ENCRYPTED'), (3, 'LEASED'), (4, 'ATTEMPTED'),
                   (5, 'DELIVERED')) AS s(seq, state)
"""
EVENTS = """
    INSERT INTO webhook_events (id, event_type, content_type, payload_bytes, node, created_at)
    SELECT event_id, event_type, 'application/json', 2, 'n', created_at FROM webhook_deliveries
"""


@pytest.fixture(scope="module")
def history(server: Any, template: str) -> Iterator[Explained]:
    _create(server, "test_list_plans", template)
    with psycopg.connect(server.superuser_url("test_list_plans"), autocommit=True) as conn:
        conn.adapters.register_dumper(int, Int8Dumper)
        subs = [make_subscription(conn) for _ in range(101)]
        conn.execute(
            "ALTER TABLE webhook_deliveries DISABLE TRIGGER webhook_deliveries_legal_start"
        )
        conn.execute(FILL, {"subs": subs, "rows": ROWS})
        conn.execute(TRAIL)
        conn.execute(EVENTS)
        conn.execute("VACUUM ANALYZE")
        yield Explained(conn, subs)


@pytest.fixture
def explained(history: Explained) -> Iterator[Explained]:
    with history.conn.transaction(force_rollback=True):
        history.plans.clear()
        yield history


def page(explained: Explained, **params: str | list[str]) -> Callable[..., Any]:
    lists = {name.rstrip("_"): [v] if isinstance(v, str) else v for name, v in params.items()}
    scope = DeliveryFilter.from_params(lists)
    return lambda **place: deliveries.list_deliveries(explained.conn, scope, **place)


SCOPES: dict[str, dict[str, str | list[str]]] = {
    "all": {},
    "of the largest": {"sub": "0"},
    "of a small one": {"sub": "7"},
    "of several": {"sub": ["0", "7", "8"]},
    "delivered": {"state": "delivered"},
    "retried": {"state": "retried"},
    "held": {"state": ["leased", "attempted"]},
    "dead": {"state": "dlq"},
    "dead of one": {"state": "dlq", "sub": "7"},
    "dead of several": {"state": "dlq", "sub": ["0", "7"]},
    "dead and not discarded": {"state": "dlq", "discarded": "0"},
    "dead, lately": {"state": "dlq", "from": "-10h"},
    "of an hour": {"from": "-12h", "to": "-11h"},
    "by answer": {"code": "5xx"},
    "by error": {"err": "http_4xx"},
    "by an answer that nobody gave": {"code": "418"},
    "by an error that nobody had": {"err": "tls"},
    "of one, by an answer that nobody gave": {"sub": "0", "code": "418"},
    "of one, by an error that nobody had": {"sub": "0", "err": "tls"},
    "dead, by an answer that nobody gave": {"state": "dlq", "code": ["418", "500-599"]},
    "dead, by an error that nobody had": {"state": "dlq", "err": ["tls", "dns"]},
    "by type": {"type": "invoice.*"},
    "by id": {"q": "ffffffff-1"},
    "by key": {"q": "ord_88213"},
    "by replay": {"replay": str(UUID(int=5))},
    "by worker": {"worker": "w-2"},
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_page_is_found_by_index_at_any_depth(explained: Explained, name: str) -> None:
    params = dict(SCOPES[name])
    if "sub" in params:
        params["sub"] = [str(explained.subs[int(n)]) for n in params["sub"]]
    read = page(explained, **params)
    place, pages = None, []
    for _ in range(8):  # beyond the fifth, the statement is prepared
        found = read(after=place)
        pages.append(found)
        place = found.next
        if place is None:
            break
    if pages[-1].prev is not None:
        read(before=pages[-1].prev)
    assert explained.whole_tables() == []
    assert explained.blocks() / len(pages) < 1500


@pytest.mark.parametrize("name", [name for name in SCOPES if "nobody" in name])
def test_what_nobody_answered_is_missed_without_reading_the_table(
    explained: Explained, name: str
) -> None:
    params = dict(SCOPES[name])
    if "sub" in params:
        params["sub"] = [str(explained.subs[int(n)]) for n in params["sub"]]
    assert not page(explained, **params)().rows
    assert explained.blocks() < 200


def test_the_trail_of_one_delivery_is_read_from_one_partition(explained: Explained) -> None:
    (newest, *_) = page(explained)(limit=1).rows
    explained.plans.clear()
    assert len(deliveries.read_trail(explained.conn, newest.id)) == 5
    scans = [node for node in explained.nodes() if "Relation Name" in node]
    assert [node["Node Type"] for node in scans] == ["Index Scan"]
    assert explained.blocks() < 10


@pytest.mark.parametrize("sub", [None, 0, 7])
def test_what_stands_open_is_counted_by_index(explained: Explained, sub: int | None) -> None:
    conn, of = explained.conn, None if sub is None else explained.subs[sub]
    stop_time(conn, read_clock(conn))
    found = standing.read_standing(conn, of)
    conn.execute("SELECT 1")  # a plan is told with the statement after
    assert explained.whole_tables() == []
    condition = "TRUE" if of is None else "subscription_id = %(of)s"
    row = conn.execute(
        "SELECT count(*) FILTER (WHERE worker_id IS NULL AND next_attempt_at <= fencepost_now()),"
        "       count(*) FILTER (WHERE worker_id IS NULL AND next_attempt_at > fencepost_now()),"
        "       count(*) FILTER (WHERE worker_id IS NOT NULL),"
        "       count(*) FILTER (WHERE dead_at IS NOT NULL)"
        f"  FROM webhook_deliveries WHERE {condition}",
        {"of": of},
    ).fetchone()
    assert (found.waiting, found.sleeping, found.in_flight, found.dead) == row


def test_many_subscriptions_are_counted_by_index(explained: Explained) -> None:
    conn = explained.conn
    stop_time(conn, read_clock(conn))
    counted = conn.execute(
        "SELECT subscription_id,"
        " count(*) FILTER (WHERE worker_id IS NULL AND next_attempt_at > fencepost_now()),"
        " count(*) FILTER (WHERE dead_at IS NOT NULL) FROM webhook_deliveries GROUP BY 1"
    ).fetchall()
    conn.execute("SELECT 1")  # a plan is told with the statement after
    explained.plans.clear()
    found = standing.read_standing_of_each(conn, explained.subs[:50])
    failures = standing.read_last_failures(conn, explained.subs[:50])
    cap = standing.CAP_OF_EACH + 1
    expected = {sub: (min(sleeping, cap), min(dead, cap)) for sub, sleeping, dead in counted}
    assert {sub: (one.sleeping, one.dead) for sub, one in found.items()} == {
        sub: expected[sub] for sub in explained.subs[:50]
    }
    assert len(failures) == 50
    now = read_clock(conn)
    hour = Window(now - timedelta(hours=1), now)
    standing.count_answers(conn, explained.subs[0], hour)
    standing.count_fenced(conn)
    failing.read_failing(conn)
    conn.execute("SELECT 1")
    assert explained.whole_tables() == []


def test_a_capped_count_stops_at_its_cap(explained: Explained) -> None:
    scope = DeliveryFilter.from_params({"sub": [str(explained.subs[0])]})
    assert deliveries.count_capped(explained.conn, scope, cap=1000) == 1001
    assert explained.whole_tables() == []


@pytest.mark.parametrize("sub", [None, 0, 7])
def test_batches_of_a_replay_do_not_grow_with_what_is_done(
    explained: Explained, sub: int | None
) -> None:
    conn, of = explained.conn, {} if sub is None else {"sub": [str(explained.subs[sub])]}
    draft = replays.draft_replay(conn, DeliveryFilter.from_params(of), reason="r", actor="a")
    run = replays.start_replay(conn, draft.id, actor="a")
    explained.plans.clear()
    costs = []
    while run.state == "RUNNING":
        before = explained.blocks()
        run = requeue.requeue_batch(conn, run, requeue.batch_size(run))
        costs.append(explained.blocks() - before)
    assert run.requeued == draft.eligible > 0
    assert explained.whole_tables() == []
    *full, _ = costs
    assert not full or full[-1] <= 1.5 * full[0]


def test_batches_of_a_discard_do_not_read_the_table(explained: Explained) -> None:
    conn = explained.conn
    draft = discards.draft_discard(conn, DeliveryFilter(), reason="r", actor="a")
    run = discards.start_discard(conn, draft.id, actor="a")
    explained.plans.clear()
    for batch in range(1, 8):
        run = giving_up.discard_batch(conn, run)
        assert run.discarded == 500 * batch
    assert explained.whole_tables() == []


def test_an_events_deliveries_and_a_replay_are_found_by_index(explained: Explained) -> None:
    conn = explained.conn
    assert deliveries.list_of_event(conn, uuid4()) == []
    draft = discards.draft_discard(conn, DeliveryFilter(replay=uuid4()), actor="a")
    assert draft.matched == 0
    now = read_clock(conn)
    scope = DeliveryFilter(since=now - timedelta(minutes=5), until=now)
    deliveries.count_capped(conn, scope)
    assert explained.whole_tables() == []
