"""Dead letters by what they died of: the counts are those of the table, or say as of when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.numeric import Int8Dumper

from conftest import _create
from factories import make_deliveries, make_subscription, pass_time
from fencepost.filters import DeliveryFilter
from fencepost.store import dead_groups, operators
from fencepost.store.dead_groups import read_groups, recount
from fencepost.store.deliveries import get_delivery, list_deliveries
from journeys import acting_as, bury
from plans import Explained
from worker.dead_groups import CountDead
from worker.link import Link

COUNTED = """
    SELECT subscription_id, coalesce(last_error, ''), coalesce(last_status, 0), count(*)
      FROM webhook_deliveries
     WHERE current_state = 'DLQ' AND discarded_at IS NULL
     GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3
"""


@pytest.fixture
def db(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        yield conn


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are many already."""
    monkeypatch.setattr(dead_groups, "FEW", 1)


def counted(conn: Connection[Any], **params: list[str]) -> list[tuple[object, ...]]:
    found = read_groups(conn, DeliveryFilter.from_params(params))
    return [(row.subscription_id, row.error, row.status, row.count) for row in found.rows]


def actually(conn: Connection[Any]) -> list[tuple[object, ...]]:
    return conn.execute(COUNTED).fetchall()


def make_some(conn: Connection[Any]) -> tuple[UUID, UUID, list[UUID]]:
    shop, gone = make_subscription(conn, name="shop"), make_subscription(conn, name="gone")
    bury(conn, first := make_deliveries(conn, shop, 3))
    bury(conn, make_deliveries(conn, shop, 2), status=503)
    bury(conn, make_deliveries(conn, gone))
    conn.execute("UPDATE webhook_subscriptions SET removed_at = now() WHERE id = %s", (gone,))
    return shop, gone, first


def test_few_are_counted_now_by_any_filter(conn: Connection[Any]) -> None:
    shop, gone, first = make_some(conn)
    operators.discard_delivery(conn, first[0], actor="a")
    assert counted(conn) == actually(conn)
    assert [row[3] for row in actually(conn)] == [2, 2, 1]
    found = read_groups(conn, DeliveryFilter(sub=(shop,)))
    assert (found.as_of, found.newest, found.is_cut) == (None, None, False)
    by_status = {row.status: row for row in found.rows}
    assert by_status[503].subscription == "shop"
    assert by_status[503].said == "HTTP 503"
    entries = {get_delivery(conn, one).dead_at for one in first[1:]}
    assert {by_status[404].first_at, by_status[404].last_at} == entries
    assert by_status[404].sample_id in first[1:]
    assert counted(conn, id=[str(first[1])]) == [(shop, "http_4xx", 404, 1)]
    assert [row.obstacle for row in read_groups(conn, DeliveryFilter(sub=(gone,))).rows] == [
        "The subscription was removed: there is nowhere to send them."
    ]


def test_a_group_is_a_filter_that_finds_its_rows(conn: Connection[Any]) -> None:
    make_some(conn)
    chosen = DeliveryFilter.from_params({"state": ["dlq"], "discarded": ["0"]})
    for row in read_groups(conn, chosen).rows:
        scope = row.scope(chosen)
        assert scope is not None
        assert len(list_deliveries(conn, scope).rows) == row.count


@pytest.mark.usefixtures("few")
def test_many_are_read_as_a_worker_counted_them(conn: Connection[Any]) -> None:
    shop, gone, first = make_some(conn)
    with acting_as(conn, "worker"):
        recount(conn)
    found = read_groups(conn, DeliveryFilter())
    assert found.as_of is not None
    assert counted(conn) == actually(conn)
    assert counted(conn, sub=[str(gone)], code=["404"]) == [(gone, "http_4xx", 404, 1)]
    assert counted(conn, err=["http_5xx"]) == [(shop, "http_5xx", 503, 2)]
    assert counted(conn, sub=[str(shop)], code=["5xx"]) == [(shop, "http_5xx", 503, 2)]
    now = read_groups(conn, DeliveryFilter(sub=(shop,)))
    assert {row.sample_id for row in now.rows if row.status == 404} <= set(first)


@pytest.mark.usefixtures("few")
def test_a_group_that_is_empty_since_the_count_is_left_out(conn: Connection[Any]) -> None:
    shop, gone, first = make_some(conn)
    recount(conn)
    for one in first:
        operators.replay_delivery(conn, one, actor="a")
    assert counted(conn) == [(shop, "http_5xx", 503, 2), (gone, "http_4xx", 404, 1)]


@pytest.mark.usefixtures("few")
def test_many_that_nobody_counted_are_represented_by_the_latest(conn: Connection[Any]) -> None:
    make_some(conn)
    found = read_groups(conn, DeliveryFilter())
    assert (found.as_of, found.newest) == (None, 1)
    assert sum(row.count for row in found.rows) == 1
    recount(conn)
    # The tally does not know types.
    assert read_groups(conn, DeliveryFilter(type=("invoice.*",))).newest == 1


def test_the_smaller_groups_are_cut_off_and_it_says_so(conn: Connection[Any]) -> None:
    shop, _, _ = make_some(conn)
    found = read_groups(conn, DeliveryFilter(), most=1)
    assert found.is_cut
    assert [(row.subscription_id, row.count) for row in found.rows] == [(shop, 3)]


def test_a_recount_forgets_what_is_gone_and_writes_only_what_changed(
    conn: Connection[Any],
) -> None:
    shop, _, first = make_some(conn)
    recount(conn)
    written = "SELECT error, status, xmin::text FROM webhook_dead_groups WHERE subscription_id = %s"
    assert len(conn.execute(written, (shop,)).fetchall()) == 2
    for one in first:
        operators.discard_delivery(conn, one, actor="a")
    pass_time(conn, 3600)
    recount(conn)
    assert [row[:2] for row in conn.execute(written, (shop,))] == [("http_5xx", 503)]


def test_it_is_counted_every_ten_seconds_over_all_workers(
    db: Connection[Any], db_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_groups, "FEW", 0)
    link = Link(db_url, name="test")
    one, other = CountDead(link), CountDead(link)
    shop = make_subscription(db)
    with db.transaction():
        bury(db, make_deliveries(db, shop, 2))
    one()
    assert counted(db) == [(shop, "http_4xx", 404, 2)]
    with db.transaction():
        bury(db, make_deliveries(db, shop))
    other()
    assert counted(db) == [(shop, "http_4xx", 404, 2)]
    pass_time(db, 11)
    other()
    assert counted(db) == [(shop, "http_4xx", 404, 3)] == actually(db)
    link.close()


DEAD = 120_000
FILL = """
    INSERT INTO webhook_deliveries
           (id, event_id, subscription_id, event_type, current_state, seq, attempt_count,
            fencing_token, last_status, last_error, dead_at, dead_reason, created_at, updated_at)
    SELECT fencepost_uuid7(at), fencepost_uuid7(at), (%(subs)s::uuid[])[1 + n %% 40],
           'invoice.paid', CASE WHEN is_dead THEN 'DLQ' ELSE 'DELIVERED' END, 5, 1, 1,
           CASE WHEN NOT is_dead THEN 200 WHEN n %% 3 > 0 THEN 500 + n %% 3 END,
           CASE WHEN is_dead THEN CASE WHEN n %% 3 > 0 THEN 'http_5xx' ELSE 'timeout' END END,
           CASE WHEN is_dead THEN at END, CASE WHEN is_dead THEN 'budget_spent' END, at, at
      FROM (SELECT n, n > %(dead)s AS is_dead,
                   now() - interval '30 hours' + n * interval '0.4 seconds' AS at
              FROM generate_series(1, 2 * %(dead)s) AS n) made
"""


@pytest.fixture(scope="module")
def crowd(server: Any, template: str) -> Iterator[Explained]:
    """Many dead letters, in 120 groups."""
    _create(server, "test_dead_groups", template)
    with psycopg.connect(server.superuser_url("test_dead_groups"), autocommit=True) as conn:
        conn.adapters.register_dumper(int, Int8Dumper)
        subs = [make_subscription(conn) for _ in range(40)]
        conn.execute(
            "ALTER TABLE webhook_deliveries DISABLE TRIGGER webhook_deliveries_legal_start"
        )
        conn.execute(FILL, {"subs": subs, "dead": DEAD})
        conn.execute("VACUUM ANALYZE")
        yield Explained(conn, subs)


def test_a_crowd_is_counted_from_the_index_alone(crowd: Explained) -> None:
    with crowd.conn.transaction():
        recount(crowd.conn)
    (scan,) = [node for node in crowd.nodes() if "deliveries" in node.get("Relation Name", "")]
    assert scan["Node Type"] == "Index Only Scan"
    assert scan["Index Name"] == "webhook_deliveries_dead_of_group"
    assert scan["Heap Fetches"] == 0
    crowd.plans.clear()
    found = read_groups(crowd.conn, DeliveryFilter(), most=200)
    assert found.as_of is not None
    assert counted(crowd.conn) == actually(crowd.conn)[:50]
    assert sum(row.count for row in found.rows) == DEAD


def test_a_page_of_groups_and_the_rows_of_one_touch_few_pages(crowd: Explained) -> None:
    with crowd.conn.transaction():
        recount(crowd.conn)
    crowd.plans.clear()
    chosen = DeliveryFilter.from_params({"state": ["dlq"], "discarded": ["0"]})
    found = read_groups(crowd.conn, chosen)
    assert len(found.rows) == 50
    assert crowd.whole_tables() == []
    assert crowd.blocks() < 2_000
    for row in (found.rows[0], found.rows[-1]):
        scope = row.scope(chosen)
        assert scope is not None
        crowd.plans.clear()
        place = None
        for _ in range(3):
            place = list_deliveries(crowd.conn, scope, after=place).next
        (scan, *_) = [node for node in crowd.nodes() if "Index Name" in node]
        assert scan["Index Name"] == "webhook_deliveries_dead_of_group"
        assert crowd.blocks() < 1_000
