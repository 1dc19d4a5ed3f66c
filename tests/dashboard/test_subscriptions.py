"""Subscriptions with their figures: the table in any order, and the page of one of them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from dashboard.retry_strip import draw_strip
from factories import stop_time
from fencepost.cells import WIDTH, Measure
from fencepost.histograms import bucket_of
from minutes import add_minute
from readings import matches, rows_of, tiles
from rolling import roll
from stage import Stage

MINUTE = timedelta(minutes=1)
ROW = re.compile(r'<tr id="row-([^"]*)" data-testid')


def names(page: str) -> list[str]:
    return re.findall(r'<a data-main href="/subscriptions/[^"]*">([^<]*)<', page)


def cell(row: str, label: str) -> str:
    text = row.split(f'data-label="{label}"')[1].split("</td>", maxsplit=1)[0].split(">", 1)[1]
    return " ".join(re.sub(r"<[^>]*>", "", text).split())


@pytest.fixture
def three(stage: Stage) -> Any:
    """Three that differ: ``calm`` does well, ``slow`` is slow, ``torn`` retries and loses."""
    now = stage.value("SELECT fencepost_now()")
    stop_time(stage.conn, now)
    took = {"calm": 10, "slow": 60_000, "torn": 100}
    counts = {
        "calm": {"ended": 100, "retries": 1, "delivered": 99, "first_delivered": 99},
        "slow": {"ended": 40, "retries": 10, "delivered": 30, "first_delivered": 30},
        "torn": {"ended": 50, "retries": 30, "delivered": 10, "first_delivered": 8, "dead": 2},
    }
    subs = {name: stage.subscription(name).id for name in took}
    for name, sub in subs.items():
        cells = {Measure.TOTAL * WIDTH + bucket_of(took[name]): 30}
        add_minute(stage, sub, now - 10 * MINUTE, cells=cells, **counts[name])
    stage.dead(subs["torn"], 2)
    return subs


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("failing", ["torn", "calm", "slow"]),
        ("name", ["calm", "slow", "torn"]),
        ("retry_rate", ["torn", "slow", "calm"]),
        ("p95", ["slow", "torn", "calm"]),
        ("dlq", ["torn", "calm", "slow"]),
    ],
)
def test_the_table_is_sorted_by_what_the_address_says(
    viewer: FlaskClient, three: Any, sort: str, order: list[str]
) -> None:
    page = viewer.get(f"/subscriptions?sort={sort}").text
    assert names(page) == order
    assert len(three) == 3
    marked = re.findall(r'<th[^>]*aria-sort="(\w+)"[^>]*><a href="[^"]*sort=(\w+)', page)
    direction = "ascending" if sort == "name" else "descending"
    assert marked == ([(direction, sort)] if sort != "failing" else [])


def test_a_row_says_what_the_figures_say(viewer: FlaskClient, three: Any, stage: Stage) -> None:
    stage.deliveries(three["torn"], 2)
    page = viewer.get("/subscriptions").text
    row = page.split(f'<tr id="row-{three["torn"]}"')[1].split("</tr>")[0]
    assert "failing</span>" in row
    assert cell(row, "First try") == "40.0 %"
    assert cell(row, "Retry rate") == "60.0 %"
    assert cell(row, "Tries") == f"{50 / 12:.2f}"
    assert cell(row, "p95 total").startswith(("99 ms", "100 ms", "101 ms"))
    assert cell(row, "Last error").startswith("404 ")
    for label, expected in (("Waiting", "2"), ("DLQ", "2")):
        assert cell(row, label) == expected
        link = re.search(r'href="([^"]*)"', row.split(f'data-label="{label}"')[1])
        assert link is not None
        assert matches(viewer, html.unescape(link[1])) == expected


def test_only_those_of_a_state_are_shown(viewer: FlaskClient, three: Any, stage: Stage) -> None:
    assert names(viewer.get("/subscriptions?state=failing").text) == ["torn"]
    assert "None is paused." in viewer.get("/subscriptions?state=paused").text
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'x',"
        " paused_at = fencepost_now() WHERE id = %s",
        (three["calm"],),
    )
    assert names(viewer.get("/subscriptions?state=paused").text) == ["calm"]
    for query, field in (("state=sad", "state"), ("sort=id;drop", "sort"), ("from=x", "from")):
        answer = viewer.get(f"/subscriptions?{query}")
        assert answer.status_code == 422
        assert f'data-field="{field}"' in answer.text


def test_more_than_a_table_holds_are_paged_through_by_age(
    viewer: FlaskClient, stage: Stage
) -> None:
    for n in range(103):
        stage.subscription(f"number {n:03}")
    page = viewer.get("/subscriptions").text
    assert "100 of 103." in page
    url: str | None = "/subscriptions?sort=newest"
    seen: list[str] = []
    while url is not None:
        page = viewer.get(url).text
        seen += names(page)
        found = re.search(r'rel="next" href="([^"]*)"', page)
        url = html.unescape(found[1]) if found else None
    rows = stage.conn.execute("SELECT name FROM webhook_subscriptions ORDER BY id DESC")
    assert seen == [row[0] for row in rows]


def test_its_page_counts_what_sql_counts_and_what_its_lists_count(
    viewer: FlaskClient, stage: Stage
) -> None:
    sub = stage.subscription("one").id
    stage.deliveries(stage.subscription("another").id, 5)
    stage.deliveries(sub, 3)
    stage.deliveries(sub, 2, due="fencepost_now() + interval '1 hour'")
    well, again = stage.deliveries(sub, 2)
    stage.send(well, 200)
    stage.send(again, 503)
    stage.dead(sub, 4)
    roll(stage.conn)
    page = viewer.get(f"/subscriptions/{sub}").text
    found = tiles(page)
    assert {name: value for name, (value, _) in found.items()} == {
        "waiting": "3", "sleeping": "3", "in-flight": "0", "dlq": "4",
    }  # fmt: skip
    for value, url in found.values():
        assert matches(viewer, url) == value
    answers = page.split('id="answers"')[1].split("</table>")[0]
    links = re.findall(r'href="([^"]*)">(\d+)</a>', answers)
    assert [count for _, count in links] == ["5", "4", "1", "1"]
    for url, count in links:
        assert matches(viewer, html.unescape(url)) == count
    groups = page.split('id="groups"')[1].split("</table>")[0]
    assert "http_4xx 404" in groups
    (link,) = re.findall(r'href="([^"]*)">4</a>', groups)
    assert matches(viewer, html.unescape(link)) == "4"
    rates = [row for row in rows_of(page, "retries-table") if row[-1] != "0"]
    assert [(row[1], row[2]) for row in rates] == [("0.0 %", "6")]


def test_a_pause_says_who_made_it_and_when(
    as_role: Callable[[str], FlaskClient], post: Callable[..., Any], stage: Stage
) -> None:
    sub = stage.subscription().id
    stage.deliveries(sub, 2)
    stage.deliveries(sub, due="fencepost_now() + interval '1 hour'")
    operator = as_role("operator")
    question = operator.get(f"/subscriptions/{sub}/confirm/pause").text
    assert "2 deliveries are waiting, 1 is not due yet." in question
    post(operator, f"/subscriptions/{sub}/pause", reason="they move house")
    bar = operator.get(f"/subscriptions/{sub}").text.split('data-testid="paused">')[1]
    said = " ".join(re.sub(r"<[^>]*>", "", bar.split("</p>")[0]).split())
    assert re.search(r"Paused \S+( \w+)* by user operator person: they move house\. 2 due", said)
    post(operator, f"/subscriptions/{sub}/resume")
    stage.conn.execute(
        "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'HTTP 410',"
        " paused_at = fencepost_now() + interval '1 second'"
    )
    bar = operator.get(f"/subscriptions/{sub}").text.split('data-testid="paused">')[1]
    assert "by a worker: HTTP 410." in bar


def test_nothing_yet_says_for_how_long(viewer: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription(event_types=["orders.*", "invoice.paid"]).id
    page = viewer.get(f"/subscriptions/{sub}").text
    assert "no event of type invoice.paid or orders.*" in page or (
        "no event of type orders.* or invoice.paid" in page
    )


@pytest.mark.parametrize(
    ("fields", "waits", "left_out", "ends"),
    [
        ({"max_attempts": 4, "backoff_base_seconds": 10, "backoff_cap_seconds": 25},
         [10, 20, 25], 0, 55),
        ({"max_attempts": 1}, [], 0, 0),
        ({"retry_preset": "standard-webhooks"},
         [5, 300, 1800, *(3600 * hours for hours in (2, 5, 10, 14, 20, 24))], 0, 272_105),
        ({"retry_preset": "three-days"}, [15 * 2**n for n in range(11)], 12, 72 * 3600),
    ],
)  # fmt: skip
def test_the_strip_shows_each_wait_of_a_budget(
    stage: Stage, fields: dict[str, Any], waits: list[int], left_out: int, ends: int
) -> None:
    strip = draw_strip(stage.subscription(**fields))
    shown = [each.after.total_seconds() for each in strip.tries if each.after is not None]
    assert shown == waits
    assert strip.left_out == left_out
    assert strip.ends_after.total_seconds() == ends
    assert [each.number for each in strip.tries] == list(range(1, len(waits) + 2))
