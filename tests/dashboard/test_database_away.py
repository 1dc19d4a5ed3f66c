"""While the database is away every page says so, and none breaks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql

from fencepost.embedded import Embedded
from stage import Stage

PAGES = (
    "/overview",
    "/deliveries",
    "/deliveries/x",
    "/dlq",
    "/replays",
    "/subscriptions",
    "/metrics",
)


@pytest.fixture
def away(make_app: Callable[..., Flask]) -> FlaskClient:
    client = make_app("postgresql://fencepost@127.0.0.1:1/fencepost").test_client()
    client.set_cookie("fencepost_session", "whoever")
    return client


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_that_the_database_is_away(away: FlaskClient, path: str) -> None:
    answer = away.get(path)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert "Traceback" not in answer.text
    assert "127.0.0.1:1" not in answer.text
    assert '<meta http-equiv="refresh" content="5">' in answer.text


def test_a_region_says_so_in_a_line(away: FlaskClient) -> None:
    answer = away.get("/_f/overview/tiles", headers={"HX-Request": "true"})
    assert answer.status_code == 503
    assert answer.mimetype == "text/plain"


def test_a_login_says_so_and_does_not_repeat_itself(away: FlaskClient) -> None:
    away.delete_cookie("fencepost_session")
    page = away.get("/login")
    assert page.status_code == 200
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert token is not None
    fields = {"csrf_token": token[1], "name": "dana", "password": "secret"}
    answer = away.post("/login", data=fields)
    assert answer.status_code == 503
    assert "http-equiv" not in answer.text


def test_health_tells_the_process_from_the_database(away: FlaskClient) -> None:
    assert away.get("/healthz").status_code == 200
    assert away.get("/readyz").status_code == 503


def test_static_files_need_no_database(away: FlaskClient) -> None:
    page = away.get("/overview").text
    css = re.search(r'href="(/static/app\.[^"]+\.css)"', page)
    assert css is not None
    with away.get(css[1]) as answer:
        assert answer.status_code == 200


@pytest.fixture
def cut(stage: Stage) -> Callable[[], None]:
    """End every connection of the dashboard, as a restart of the server does."""

    def end() -> None:
        stage.conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'fencepost web'"
        )

    return end


def test_a_restart_of_the_server_costs_no_request(
    viewer: FlaskClient, cut: Callable[[], None]
) -> None:
    for _ in range(3):
        assert viewer.get("/overview").status_code == 200
        cut()


def test_a_server_that_comes_back_is_used_again(
    viewer: FlaskClient, stage: Stage, cut: Callable[[], None], server: Embedded
) -> None:
    assert viewer.get("/overview").status_code == 200
    name = sql.Identifier(str(stage.value("SELECT current_database()")))
    elsewhere = psycopg.connect(server.superuser_url("postgres"), autocommit=True)
    with elsewhere:
        elsewhere.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        cut()
        assert viewer.get("/overview").status_code == 503
        elsewhere.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    assert viewer.get("/overview").status_code == 200


def test_a_database_that_was_not_migrated_says_so(viewer: FlaskClient, stage: Stage) -> None:
    stage.conn.execute("ALTER TABLE webhook_deliveries RENAME TO elsewhere")
    stage.conn.execute("DROP TABLE fencepost_schema_version")
    for path in ("/overview", "/deliveries"):
        answer = viewer.get(path)
        assert answer.status_code == 503
        assert "fencepost migrate" in answer.text


def test_a_defect_has_an_id_and_tells_nothing(
    viewer: FlaskClient, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.conn.execute("ALTER TABLE webhook_deliveries RENAME TO elsewhere")
    answer = viewer.get("/deliveries")
    assert answer.status_code == 500
    assert "webhook_deliveries" not in answer.text
    (record,) = [one for one in caplog.records if "web.defect" in one.message]
    incident = record.message.split("incident=")[1].split()[0]
    assert incident in answer.text


def test_a_row_that_is_locked_is_no_defect(
    operator: FlaskClient, post: Callable[..., Any], stage: Stage
) -> None:
    (dead,) = stage.dead(stage.subscription().id, 1)
    blocker = psycopg.connect(stage.url)
    try:
        blocker.execute("SELECT FROM webhook_deliveries FOR UPDATE")
        answer = post(operator, f"/deliveries/{dead}/replay")
    finally:
        blocker.rollback()
        blocker.close()
    assert answer.status_code == 503
    assert stage.value("SELECT current_state FROM webhook_deliveries") == "DLQ"


def test_a_slow_query_is_stopped_and_says_what_to_do(viewer: FlaskClient, stage: Stage) -> None:
    assert viewer.get("/deliveries").status_code == 200
    blocker = psycopg.connect(stage.url)
    try:
        blocker.execute("LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        answer = viewer.get("/deliveries")
    finally:
        blocker.rollback()
        blocker.close()
    assert answer.status_code == 503
    assert "Narrow the time range" in answer.text
    assert viewer.get("/deliveries").status_code == 200
