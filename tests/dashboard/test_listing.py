"""The list of deliveries: what its rows say, and what becomes of them while it is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any
from uuid import UUID

from flask.testing import FlaskClient

from stage import Stage

HX = {"HX-Request": "true"}


def shown(page: str) -> list[UUID]:
    return [UUID(each) for each in re.findall(r'data-testid="row-([^"]+)"', page)]


def link(page: str, label: str) -> str:
    found = re.search(rf'href="([^"]*)"[^>]*>{label}</a>', page)
    assert found is not None
    return unescape(found[1])


def region(page: str, name: str) -> str:
    found = re.search(rf'id="{name}" hx-get="([^"]*)"', page)
    assert found is not None
    return unescape(found[1])


def test_a_row_that_matches_no_longer_stays_and_says_so(viewer: FlaskClient, stage: Stage) -> None:
    one, other = stage.deliveries(stage.subscription().id, 2)
    page = viewer.get("/deliveries?phase=waiting").text
    stage.send(one, 503)
    rows = viewer.get(region(page, "rows"), headers=HX).text
    assert shown(rows) == [other, one]
    assert re.findall(r'row-([^"]+)" class="gone"', rows) == [str(one)]
    assert "retried" in rows
    assert "sleeping" in rows


def test_a_row_has_its_key_and_what_it_is_doing(viewer: FlaskClient, stage: Stage) -> None:
    (sent,) = stage.deliveries(stage.subscription().id)
    stage.conn.execute("UPDATE webhook_events SET idempotency_key = 'paid-7 <b>'")
    stage.attempt(stage.claim(sent))
    page = viewer.get("/deliveries?phase=inflight").text
    assert "paid-7 &lt;b&gt;" in page
    assert "in flight" in page
    assert shown(viewer.get("/deliveries?fenced=1").text) == []
    assert viewer.get("/deliveries?fenced=x").status_code == 422


def test_what_is_new_is_counted_above_the_first_page_alone(
    viewer: FlaskClient, stage: Stage
) -> None:
    sub = stage.subscription()
    empty = viewer.get(f"/deliveries?sub={sub.id}").text
    stage.deliveries(sub.id, 30)
    assert "30 new, show" in viewer.get(region(empty, "new-rows"), headers=HX).text
    first = viewer.get(f"/deliveries?sub={sub.id}&limit=25").text
    second = viewer.get(link(first, "Older")).text
    assert 'id="new-rows"' not in second
    again = viewer.get(link(second, "Newer")).text
    stage.deliveries(sub.id, 2)
    for page in (first, again):
        assert "2 new, show" in viewer.get(region(page, "new-rows"), headers=HX).text
    stage.deliveries(sub.id, 99)
    assert "100+ new, show" in viewer.get(region(first, "new-rows"), headers=HX).text


def test_an_empty_list_says_why_and_what_to_do(viewer: FlaskClient) -> None:
    assert "Nothing has been published" in viewer.get("/deliveries").text
    page = viewer.get("/deliveries?from=-1h&type=nothing.at_all").text
    assert "limited to event type nothing.at_all, from -1h." in page
    assert "Nothing has been published" not in page
    assert link(page, "Clear the filters") == "/deliveries"
    assert link(page, "look through 30 days") == "/deliveries?type=nothing.at_all&from=-30d"
    assert "look through" not in viewer.get("/deliveries?type=nothing.at_all").text


def test_a_link_to_a_list_has_moments(viewer: FlaskClient, stage: Stage) -> None:
    (sent,) = stage.deliveries(stage.subscription().id)
    page = viewer.get("/deliveries?from=-1h&type=invoice.*").text
    found = re.search(r'id="pinned">([^<]*)<', page)
    assert found is not None
    assert re.fullmatch(
        r"http://localhost/deliveries\?type=invoice\.\*&from=20..-..-..T[^&]*Z", unescape(found[1])
    )
    assert shown(viewer.get(unescape(found[1])).text) == [sent]


def test_what_is_selected_is_replayed_and_nothing_else(
    operator: FlaskClient, viewer: FlaskClient, stage: Stage, post: Callable[..., Any]
) -> None:
    sub = stage.subscription()
    (done,) = stage.deliveries(sub.id)
    stage.send(done, 200)
    dead, _ = stage.dead(sub.id, 2)
    assert 'name="pick"' not in viewer.get("/deliveries").text
    page = operator.get("/deliveries").text
    assert f'name="pick" value="{dead}"' in page
    assert "discard-selected" not in page
    assert "discard-selected" in operator.get("/deliveries?state=dlq").text
    found = re.search(r'name="filter" value="([^"]*)"', page)
    assert found is not None
    chosen = {"filter": unescape(found[1])}
    answer = post(operator, "/replays", **chosen, pick=[str(dead), str(done)])
    draft = operator.get(answer.location).text
    assert 'replay-eligible">2<' in draft
    assert "Send 1 again although it was delivered" in draft
    assert "2 picked deliveries<" in draft
    every = operator.get(post(operator, "/replays", **chosen, all="1").location).text
    assert 'replay-eligible">3<' in every
    assert "all deliveries<" in every
    assert post(operator, "/replays", **chosen).status_code == 422


def test_a_list_that_takes_too_long_says_what_to_do(viewer: FlaskClient, stage: Stage) -> None:
    stage.deliveries(stage.subscription().id)
    with stage.conn.transaction():
        stage.conn.execute("LOCK webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        answer = viewer.get("/deliveries", headers={**HX, "HX-Target": "div#results"})
    assert answer.status_code == 503
    assert answer.text == "Took longer than 2 s. Narrow the time range or pick a subscription."
