"""The operator log: what was done and what was refused, by page and by API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from stage import Stage


def test_what_people_did_is_listed_with_who_and_why(
    operator: FlaskClient, stage: Stage, post: Callable[..., Any]
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    assert post(operator, f"/deliveries/{dead}/replay", reason="mended, INC-7").status_code == 303
    page = operator.get("/audit?action=delivery").text
    assert "user operator person" in page
    assert "mended, INC-7" in page
    assert f'href="/deliveries/{dead}"' in page
    assert "subscription.add" not in page


def test_the_reason_comes_before_what_may_be_cut(
    operator: FlaskClient, stage: Stage, post: Callable[..., Any]
) -> None:
    stage.dead(stage.subscription().id, 1)
    draft = post(operator, "/replays", all="1", state="dlq").location
    assert post(operator, f"{draft}/start", reason="mended, INC-8").status_code == 303
    started = operator.get("/audit?action=replay.start").text
    assert 'title="reason: mended, INC-8, ' in started


def test_what_was_denied_is_listed_too(
    viewer: FlaskClient, stage: Stage, post: Callable[..., Any]
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    assert post(viewer, f"/deliveries/{dead}/replay").status_code == 403
    page = viewer.get("/audit?outcome=denied").text
    assert "user viewer person" in page
    assert f'href="/deliveries/{dead}"' in page
    assert viewer.get("/audit?outcome=done&actor=user+viewer+person").text.count('id="row-') == 0


def test_pages_follow_each_other_without_a_gap(admin: FlaskClient, stage: Stage) -> None:
    for number in range(30):
        stage.subscription(f"sub {number}")
    admin.set_cookie("fencepost_rows", "25")
    seen, url = [], "/audit?action=subscription"
    while True:
        page = admin.get(url).text
        seen += [part.split('"')[0] for part in page.split('id="row-')[1:]]
        if 'rel="next"' not in page:
            break
        url = page.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 30
    assert seen == sorted(seen, key=int, reverse=True)


def test_a_cursor_of_another_filter_is_refused(admin: FlaskClient, stage: Stage) -> None:
    for number in range(26):
        stage.subscription(f"sub {number}")
    admin.set_cookie("fencepost_rows", "25")
    page = admin.get("/audit").text
    cursor = page.split('rel="next" href="')[1].split('"')[0].split("after=")[1].split("&")[0]
    assert admin.get(f"/audit?after={cursor}").status_code == 200
    assert admin.get(f"/audit?action=delivery&after={cursor}").status_code == 422


def test_the_api_has_it_as_well(app: Flask, stage: Stage) -> None:
    client, headers = app.test_client(), {"Authorization": f"Bearer {stage.token('viewer')}"}
    stage.subscription()
    answer = client.get("/api/v1/audit?action=subscription&from=-1h&limit=1", headers=headers)
    assert answer.status_code == 200
    assert answer.json is not None
    assert [row["action"] for row in answer.json["data"]] == ["subscription.add"]
    assert client.get("/api/v1/audit?actor=x&actor=y", headers=headers).status_code == 422
    assert client.get("/api/v1/audit?outcome=maybe", headers=headers).status_code == 422
    assert client.get("/api/v1/audit?to=yesterday", headers=headers).status_code == 422
    nothing = client.get("/api/v1/audit?to=-1h", headers=headers)
    assert nothing.json == {"data": [], "next": None, "prev": None}
