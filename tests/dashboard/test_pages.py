"""Pages and fragments: one URL, two forms, and errors that say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.headers import CONTENT_SECURITY_POLICY
from factories import stop_time
from stage import Stage
from tour import FOR_STRANGERS, Tour, pages, tour

HX = {"HX-Request": "true"}


def asking(target: str, **more: str) -> dict[str, str]:
    return {**HX, "HX-Target": target, **more}


@pytest.fixture
def places(stage: Stage) -> Tour:
    return tour(stage)


@pytest.fixture
def paths(places: Tour) -> list[str]:
    """Every page of those who are logged in, in each of its forms."""
    return [path for name, found in places.items() if name not in FOR_STRANGERS for path in found]


def test_every_page_is_on_the_tour(app: Flask, places: Tour) -> None:
    assert {rule.endpoint for rule in pages(app)} == set(places)


def test_every_page_answers_and_is_protected(admin: FlaskClient, paths: list[str]) -> None:
    for path in [*paths, "/nowhere", "/login"]:
        answer = admin.get(path)
        assert answer.status_code == {"/nowhere": 404, "/login": 303}.get(path, 200), path
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["X-Robots-Tag"] == "noindex"
        assert answer.headers["Cache-Control"] == "no-store"


def test_no_link_of_a_page_is_dead(admin: FlaskClient, paths: list[str]) -> None:
    seen: set[str] = set()
    wanted = set(paths)
    while wanted:
        path = wanted.pop()
        seen.add(path)
        answer = admin.get(path)
        assert answer.status_code in {200, 302}, path
        found = re.findall(r'(?:href|src|hx-get)="(/[^"#]*)"', answer.text)
        answer.close()  # a static file is an open one
        wanted |= {each.replace("&amp;", "&") for each in found} - seen
    assert len(seen) > 25


def test_a_page_has_no_inline_style_or_script(admin: FlaskClient, paths: list[str]) -> None:
    for path in paths:
        page = admin.get(path).text
        assert not re.search(r"<[^>]+\sstyle=", page), path
        assert not re.search(r"<script(?![^>]*\ssrc=)", page), path
        assert not re.search(r"<[^>]+\son[a-z]+=", page), path
        assert "<style" not in page


def test_a_list_answers_with_the_block_that_htmx_names(viewer: FlaskClient) -> None:
    for path in ("/deliveries", "/dlq"):
        block = viewer.get(path, headers=asking("div#results"))
        assert block.text.lstrip().startswith('<div id="results">')
        assert "<html" not in block.text
        page = viewer.get(path)
        assert "<html" in page.text
        for answer in (block, page):
            assert answer.headers["Vary"] == (
                "HX-Request, HX-Target, HX-History-Restore-Request, Cookie"
            )


@pytest.mark.parametrize(
    "headers",
    [
        asking("div#nothing"),
        asking("div"),
        asking("div#results", **{"HX-History-Restore-Request": "true"}),
        asking("div#results", **{"HX-Boosted": "true"}),
        {"HX-Target": "div#results"},
    ],
)
def test_what_htmx_cannot_place_is_a_whole_page(
    viewer: FlaskClient, headers: dict[str, str]
) -> None:
    assert "<html" in viewer.get("/deliveries", headers=headers).text


def test_the_address_bar_follows_a_filter_and_nothing_else(viewer: FlaskClient) -> None:
    headers = asking("div#results", **{"HX-Current-URL": "http://localhost/deliveries"})
    changed = viewer.get("/deliveries?state=dlq&type=&nonsense=1&limit=50", headers=headers)
    assert changed.headers["HX-Push-Url"] == "/deliveries?state=dlq"
    headers["HX-Current-URL"] = "http://localhost/deliveries?state=dlq"
    same = viewer.get("/deliveries?state=dlq&type=", headers=headers)
    assert "HX-Push-Url" not in same.headers
    assert "HX-Push-Url" not in viewer.get("/deliveries?state=dlq").headers


def test_a_region_is_not_sent_twice(
    app: Flask, admin: FlaskClient, paths: list[str], stage: Stage
) -> None:
    told = "".join(admin.get(path).text for path in paths)
    found = set(re.findall(r'hx-get="(/_f/[^"]*)"', told))
    regions = {rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/_f/")}
    assert len(found) >= len(regions)
    stop_time(stage.conn, stage.value("SELECT fencepost_now()"))  # some follow the clock
    for path in sorted(each.replace("&amp;", "&") for each in found):
        answer = admin.get(path, headers=HX)
        assert answer.status_code == 200, path
        assert answer.headers["Cache-Control"] == "private, no-cache"
        assert "HX-Request" in answer.headers["Vary"]
        assert "HX-Push-Url" not in answer.headers
        tag = answer.headers["ETag"]
        assert tag.startswith('W/"')
        again = admin.get(path, headers={**HX, "If-None-Match": tag})
        assert (again.status_code, again.data) == (304, b""), path
        assert admin.post(path).status_code == 405
    (waiting,) = stage.deliveries(stage.subscription("other").id)
    before = admin.get(f"/_f/deliveries/{waiting}/timeline").headers["ETag"]
    stage.send(waiting, 200)
    after = admin.get(f"/_f/deliveries/{waiting}/timeline", headers={"If-None-Match": before})
    assert after.status_code == 200


def test_a_region_without_a_login_leads_to_it_and_back(app: Flask) -> None:
    headers = asking("div#timeline", **{"HX-Current-URL": "http://localhost/deliveries/1?x=2"})
    answer = app.test_client().get(f"/_f/deliveries/{uuid4()}/timeline", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == "/login?next=/deliveries/1?x%3D2"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=XXX", "state"), ("sub=1", "sub"), ("limit=0", "limit"), ("limit=1000000", "limit"),
        ("limit=abc", "limit"), ("after=x", "after"), ("before=x", "before"),
        ("after=a&before=b", "before"), ("from=9999-99-99", "from"), ("code=1e3", "code"),
        ("min_attempts=-1", "min_attempts"), ("err=drop", "err"), ("q=%00", "q"),
        ("from=-1h&to=-2h", "from"), (f"q={'x' * 10_000}", "q"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_named(viewer: FlaskClient, query: str, field: str) -> None:
    for path in ("/deliveries", "/dlq"):
        answer = viewer.get(f"{path}?{query}")
        if path == "/dlq" and field == "state" and answer.status_code == 200:
            continue
        assert answer.status_code == 422, path
        assert f'data-field="{field}"' in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize("query", ["page=-1", "sort=id;drop", "state[]=x", "nonsense=1", "state="])
def test_an_unknown_parameter_is_passed_over(viewer: FlaskClient, query: str) -> None:
    assert viewer.get(f"/deliveries?{query}").status_code == 200


@pytest.mark.parametrize("query", ["q=%25", "q=_", "q=%5C", "q=%27", "type=a_b", "worker=%25"])
def test_a_wildcard_is_a_letter(viewer: FlaskClient, stage: Stage, query: str) -> None:
    stage.deliveries(stage.subscription().id)
    assert "0 shown" in viewer.get(f"/deliveries?{query}").text


def test_a_cursor_belongs_to_its_filter(viewer: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription()
    stage.deliveries(sub.id, 30)
    page = viewer.get("/deliveries?limit=25").text
    next_url = re.search(r'rel="next" href="([^"]+)"', page)
    assert next_url is not None
    url = next_url[1].replace("&amp;", "&")
    assert "5 shown" in viewer.get(url).text
    assert viewer.get(f"{url}&state=dlq").status_code == 422
    assert viewer.get(f"{url[:-1]}!").status_code == 422


def test_pages_follow_each_other_without_a_gap(viewer: FlaskClient, stage: Stage) -> None:
    ids = stage.deliveries(stage.subscription().id, 60)
    seen: list[str] = []
    url: str | None = "/deliveries?limit=25"
    while url is not None:
        page = viewer.get(url).text
        seen += re.findall(r'data-testid="row-([^"]+)"', page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        url = found[1].replace("&amp;", "&") if found else None
    assert [UUID(each) for each in seen] == sorted(ids, reverse=True)


@pytest.mark.parametrize(
    "path",
    [
        "/deliveries/{id}", "/deliveries/nope", "/deliveries/{id}/confirm/replay", "/replays/{id}",
        "/subscriptions/{id}", "/subscriptions/x%00y", "/events/{id}", "/events/{ID}",
        "/_f/deliveries/{id}/timeline", "/_f/replays/{id}/progress", "/nowhere", "/static/app.css",
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(operator: FlaskClient, path: str) -> None:
    id_ = str(uuid4())
    answer = operator.get(path.format(id=id_, ID=id_.upper()))
    assert answer.status_code == 404
    if "{id}" in path:
        assert id_ in answer.text


def test_an_error_is_a_line_to_htmx(operator: FlaskClient) -> None:
    answer = operator.get(f"/_f/deliveries/{uuid4()}/timeline", headers=HX)
    assert answer.mimetype == "text/plain"
    assert answer.text.startswith("There is no delivery")


def test_hostile_text_is_shown_and_not_run(admin: FlaskClient, stage: Stage) -> None:
    hostile = "<img src=x onerror=alert(1)>\"'</script>"
    sub = stage.subscription(hostile)
    (delivery,) = stage.deliveries(sub.id)
    for path in ("/overview", "/deliveries", f"/deliveries/{delivery}", "/subscriptions",
                 f"/subscriptions/{sub.id}", f"/deliveries?sub={sub.id}"):  # fmt: skip
        page = admin.get(path).text
        assert "&lt;img src=x" in page
        assert "<img" not in page
    assert "<img" not in admin.get(f"/deliveries?q={hostile}").text


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Host": "localhost.evil"}]
)
def test_another_host_is_refused(viewer: FlaskClient, headers: dict[str, str]) -> None:
    assert viewer.get("/overview", headers=headers).status_code == 400


def test_forwarded_headers_count_only_from_our_proxies(
    viewer: FlaskClient, make_app: Callable[..., Flask]
) -> None:
    forwarded = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    answer = viewer.get("/login", headers=forwarded)
    assert answer.status_code == 303
    assert "Strict-Transport-Security" not in answer.headers
    behind = make_app(proxy_hops=1, trusted_hosts="hooks.example.com").test_client()
    named = {"X-Forwarded-Host": "hooks.example.com", "X-Forwarded-Proto": "https"}
    assert behind.get("/login", headers=named).status_code == 200
    assert behind.get("/login", headers=forwarded).status_code == 400


def test_only_what_waits_for_a_paused_subscription_is_called_held(
    viewer: FlaskClient, stage: Stage
) -> None:
    sub = stage.subscription()
    (waiting,), (dead,) = stage.deliveries(sub.id), stage.dead(sub.id, 1)
    pause = "UPDATE webhook_subscriptions SET state = 'paused', paused_reason = 'theirs', "
    stage.conn.execute(f"{pause} paused_at = fencepost_now()")
    assert "It is held: its subscription is paused (theirs)." in page(viewer, waiting)
    assert "It is held" not in page(viewer, dead)
    stage.conn.execute("UPDATE webhook_subscriptions SET removed_at = fencepost_now()")
    assert "It is held" not in page(viewer, waiting)


def page(client: FlaskClient, delivery: UUID) -> str:
    return client.get(f"/deliveries/{delivery}").text


def test_health_and_metrics(app: Flask, viewer: FlaskClient, stage: Stage) -> None:
    stage.dead(stage.subscription().id, 3)
    anybody = app.test_client()
    assert anybody.get("/healthz").json == {"status": "ok"}
    assert anybody.get("/readyz").json == {"status": "ok"}
    told: Any = viewer.get("/metrics").text
    assert "fencepost_dead_letters 3.0" in told
    stage.conn.execute("UPDATE fencepost_schema_version SET version_num = '0000'")
    unready = anybody.get("/readyz")
    assert unready.status_code == 503
    assert "fencepost migrate" in unready.text
