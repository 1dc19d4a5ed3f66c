"""The overview says what SQL counts; each number leads to a list that counts the same."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from dashboard.presenters import measured
from factories import stop_time
from fencepost.cells import WIDTH, Measure
from fencepost.histograms import bucket_of, value_of
from fencepost.store import failing
from minutes import add_minute
from readings import matches, rows_of, tiles
from rolling import roll
from stage import Stage

HX = {"HX-Request": "true"}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def busy(stage: Stage) -> UUID:
    """A subscription with something of every kind."""
    sub = stage.subscription("busy").id
    stage.beat()
    stage.deliveries(sub, 3)
    stage.deliveries(sub, 2, due="fencepost_now() + interval '1 hour'")
    leased, out, well, again, late = stage.deliveries(sub, 5)
    stage.claim(leased)
    stage.attempt(stage.claim(out))
    stage.send(well, 200)
    stage.send(again, 503)
    stage.send(again, 200)
    lease = stage.claim(late)
    stage.attempt(lease)
    stage.expire(late)
    assert not stage.settle(lease, 200)
    given_up, *_ = stage.dead(sub, 3)
    stage.discard(given_up)
    roll(stage.conn)
    return sub


@pytest.mark.parametrize("narrowed", [False, True])
def test_each_number_is_what_sql_counts_and_so_does_its_list(
    viewer: FlaskClient, stage: Stage, busy: UUID, *, narrowed: bool
) -> None:
    other = stage.subscription("other").id
    stage.deliveries(other, 4)
    stage.dead(other, 1)
    roll(stage.conn)
    found = tiles(viewer.get(f"/overview?sub={busy}" if narrowed else "/overview").text)
    expected = {
        "waiting": "worker_id IS NULL AND next_attempt_at <= fencepost_now()",
        "sleeping": "worker_id IS NULL AND next_attempt_at > fencepost_now()",
        "in-flight": "current_state IN ('LEASED', 'ATTEMPTED')",
        "dlq": "current_state = 'DLQ' AND discarded_at IS NULL",
    }
    for name, condition in expected.items():
        counted = stage.value(
            f"SELECT count(*) FROM webhook_deliveries WHERE {condition}"
            " AND (subscription_id = %s OR NOT %s)",
            busy,
            narrowed,
        )
        value, url = found[name]
        assert value == str(counted), name
        assert matches(viewer, url) == value, url
    assert found["waiting"][0] == ("4" if narrowed else "8")
    # Of the first attempts that ended, one delivered; the others: 503, expired, dead letters.
    firsts, whole = (1, 6) if narrowed else (1, 7)
    assert found["first-try"][0] == f"{100 * firsts / whole:.1f}"
    assert found["fenced"][0] == "1"
    workers = viewer.get(found["fenced"][1]).text
    assert re.findall(r'data-label="Fenced, 1 h" class="num">(\d+)<', workers) == ["1"]
    assert found["workers"][0] == "1"


def test_what_a_paused_subscription_holds_is_said_to_be_held(
    viewer: FlaskClient, stage: Stage
) -> None:
    stage.beat()
    sub = stage.subscription().id
    stage.deliveries(sub, 2)
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x',"
        " paused_at = fencepost_now()"
    )
    page = viewer.get("/overview").text
    assert tiles(page)["waiting"][0] == "2"
    assert "2 held" in page
    assert "Oldest waiting" not in page
    assert "1 is paused" in page


def test_the_dlq_tells_what_it_gained(viewer: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription().id
    old, _ = stage.dead(sub, 2)
    before = "dead_at = dead_at - interval '2 hours'"
    stage.conn.execute(f"UPDATE webhook_deliveries SET {before} WHERE id = %s", (old,))
    page = viewer.get("/overview").text
    assert tiles(page)["dlq"][0] == "2"
    link = re.search(r'href="([^"]*)">\+1 in 1 h<', page)
    assert link is not None
    assert matches(viewer, html.unescape(link[1])) == "1"


def test_delivered_is_by_the_minute_and_compared_with_the_period_before(
    viewer: FlaskClient, stage: Stage
) -> None:
    now = stage.value("SELECT fencepost_now()")
    stop_time(stage.conn, now)
    sub = stage.subscription().id
    stage.deliveries(sub)
    add_minute(
        stage, sub, now - 10 * MINUTE, ended=130, delivered=122, first_delivered=117, retries=0
    )
    add_minute(stage, sub, now - 70 * MINUTE, ended=10, delivered=10, first_delivered=10)
    page = viewer.get("/overview").text
    minutes = (now - (now - 60 * MINUTE).replace(second=0, microsecond=0)) / MINUTE
    value = 122 / minutes
    assert tiles(page)["delivered"][0] == f"{value:.2g}"
    assert tiles(page)["first-try"][0] == "90.0"
    assert "\N{MINUS SIGN}10.0 pp" in page


def test_a_chart_draws_what_its_table_says_and_both_what_was_counted(
    viewer: FlaskClient, stage: Stage
) -> None:
    now = stage.value("SELECT fencepost_now()")
    stop_time(stage.conn, now)
    sub = stage.subscription().id
    stage.deliveries(sub)
    took = {Measure.TOTAL * WIDTH + bucket_of(ms): n for ms, n in ((10, 30), (1000, 10))}
    add_minute(stage, sub, now - 5 * MINUTE, ended=40, delivered=35, failed=5, dead=2,
               cells={9: 2, **took})  # fmt: skip
    add_minute(stage, sub, now - 3 * MINUTE, ended=3, delivered=3,
               cells={Measure.TOTAL * WIDTH + bucket_of(50): 3})  # fmt: skip
    page = viewer.get("/overview?from=-15m").text
    *steps, together = rows_of(page, "outcomes-table")
    minute = (now - 5 * MINUTE).strftime("%Y-%m-%d %H:%MZ")
    assert [minute, "35", "3", "2"] in steps
    assert together == ["Together", "38", "3", "2"]
    drawn = re.findall(r'class="k-(\w+)"[^>]*data-n="(\d+)"', page)
    tabled = [(key, cell) for row in steps
              for key, cell in zip(("delivered", "failed", "dead"), row[1:], strict=True)
              if cell != "0"]  # fmt: skip
    assert drawn == tabled
    exact = rows_of(page, "durations-table")
    full = next(row for row in exact if row[0] == minute)
    second = measured(value_of(bucket_of(1000)))
    assert full == [minute, "10 ms", second, second, "40"]
    few = next(row for row in exact if row[-1] == "3")
    assert few[1:] == [measured(value_of(bucket_of(50))), "\N{EN DASH}", "\N{EN DASH}", "3"]
    assert len(steps) in {15, 16}


def test_percentiles_of_few_durations_are_not_told(viewer: FlaskClient, stage: Stage) -> None:
    now = stage.value("SELECT fencepost_now()")
    sub = stage.subscription().id
    stage.deliveries(sub)
    cell = Measure.IN_FLIGHT * WIDTH + bucket_of(100)
    add_minute(stage, sub, now - 2 * MINUTE, ended=7, cells={cell: 7})
    page = viewer.get("/overview?seg=in_flight").text
    row = page.split('data-seg="in_flight"')[1].split("</tr>")[0]
    assert "too few (n=7)" in row
    assert 'aria-current="true">request in flight' in row


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"), ("to=never", "to"), ("from=-1h&to=-2h", "from"),
        ("seg=everything", "seg"), ("sub=7", "sub"), ("from=2030-01-01", "from"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(viewer: FlaskClient, query: str, field: str) -> None:
    for path in ("/overview", "/_f/overview/tiles", "/_f/overview/charts", "/_f/overview/tables"):
        answer = viewer.get(f"{path}?{query}", headers={"Accept": "text/html"})
        assert answer.status_code == 422, path
        assert f'data-field="{field}"' in answer.text


@pytest.mark.parametrize(
    "query", ["from=-15m", "from=-30d", "from=-3650d", "from=2026-01-01&to=2026-02-01", "from=-1s"]
)
def test_any_stretch_of_time_can_be_asked_for(
    viewer: FlaskClient, stage: Stage, query: str
) -> None:
    stage.deliveries(stage.subscription().id)
    page = viewer.get(f"/overview?{query}").text
    assert 1 <= len(rows_of(page, "outcomes-table")) <= 62


def test_the_address_drops_what_is_usual(viewer: FlaskClient, stage: Stage) -> None:
    stage.deliveries(stage.subscription().id)
    asked = {**HX, "HX-Target": "div#results", "HX-Current-URL": "http://localhost/overview"}
    answer = viewer.get("/overview?sub=&from=-60m&seg=total", headers=asked)
    assert answer.text.lstrip().startswith('<div id="results">')
    assert "HX-Push-Url" not in answer.headers
    answer = viewer.get("/overview?sub=&from=-24h&seg=total", headers=asked)
    assert answer.headers["HX-Push-Url"] == "/overview?from=-1d"


def test_a_newcomer_is_led_to_the_first_delivery(
    as_role: Callable[[str], FlaskClient], stage: Stage
) -> None:
    admin, viewer = as_role("admin"), as_role("viewer")
    page = admin.get("/overview").text
    assert "No worker has ever reported" in page
    assert 'href="/subscriptions/new"' in page
    assert "curl http://localhost/api/v1/events/invoice.paid" in page
    assert "Send a test event" not in page
    sub = stage.subscription().id
    for client, may in ((as_role("operator"), True), (viewer, False)):
        assert (f"/subscriptions/{sub}/confirm/test" in client.get("/overview").text) is may
    stage.deliveries(sub)
    assert "Publish an event" not in viewer.get("/overview").text


def test_it_says_when_no_worker_reports(viewer: FlaskClient, stage: Stage) -> None:
    stage.deliveries(stage.subscription().id)
    for worker, age in (("w-1", 41), ("w-2", 50), ("w-3", 4000)):
        stage.beat(worker)
        stage.conn.execute(
            "UPDATE webhook_workers SET beat_at = fencepost_now() - %s * interval '1 s'"
            " WHERE worker_id = %s",
            (age, worker),
        )
    page = viewer.get("/overview").text
    alarm = page.split('role="alert">')[-1].split("</p>")[0]
    assert "No worker has reported since" in alarm
    assert "Not delivering." in page
    assert "0 <small>of 2 alive</small>" in page
    stage.beat("w-1")
    page = viewer.get("/overview").text
    assert "No worker has reported" not in page
    assert 'silent: <span class="mono">w-2' in page


@pytest.mark.parametrize(
    ("minutes_ago", "counts", "fails"),
    [
        (1, {"ended": 10, "first_delivered": 4}, True),
        (1, {"ended": 10, "first_delivered": 5}, False),
        (1, {"ended": 9, "first_delivered": 0}, False),
        (1, {"ended": 12, "retries": 6, "first_delivered": 2}, True),
        (1, {"ended": 12, "retries": 12}, False),
        (7, {"ended": 10, "first_delivered": 0}, False),
        (14, {"dead": 1}, True),
        (17, {"dead": 1}, False),
    ],
)
def test_a_subscription_fails_by_the_rule_that_stands_beside_it(
    viewer: FlaskClient, stage: Stage, minutes_ago: int, counts: dict[str, int], *, fails: bool
) -> None:
    now = stage.value("SELECT fencepost_now()")
    stop_time(stage.conn, now)
    stage.beat()
    sub = stage.subscription("under test").id
    stage.subscription("a quiet one")
    stage.deliveries(sub)
    add_minute(stage, sub, now - minutes_ago * MINUTE, cells=None, **counts)
    page = viewer.get("/overview").text
    assert ("1 of 2 subscriptions are failing" in page) is fails
    first = page.split('class="table subs"')[1].split('<tr id="row-')[1]
    assert ("failing</span>" in first) is fails
    assert f"{failing.LEAST_ATTEMPTS} attempts" in page


def test_a_region_is_rendered_again_only_when_something_happened(
    viewer: FlaskClient, stage: Stage, busy: UUID
) -> None:
    stop_time(stage.conn, stage.value("SELECT fencepost_now()"))
    paths = [f"/_f/overview/{name}" for name in ("tiles", "charts", "tables")]
    tags = {path: viewer.get(path).headers["ETag"] for path in paths}

    def again(path: str) -> Any:
        return viewer.get(path, headers={**HX, "If-None-Match": tags[path]}).status_code

    stage.beat()
    assert [again(path) for path in paths] == [304, 304, 304]
    (new,) = stage.deliveries(busy)
    stage.send(new, 200)
    roll(stage.conn)
    assert [again(path) for path in paths] == [200, 200, 200]
