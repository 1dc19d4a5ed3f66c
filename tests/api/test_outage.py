"""The API while its database is away, slow or restarting: 503, nothing half done, nothing stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict

from api_client import Api, Role
from dashboard import create_app
from dashboard.models import db
from fencepost.embedded import Embedded
from fencepost.settings import Settings
from waiting import eventually

WEB = "fencepost web"


@pytest.fixture
def superuser(server: Embedded) -> Iterator[Connection[Any]]:
    """A connection to another database of the same server, which may end all others."""
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as conn:
        yield conn


@pytest.fixture
def name(database: str) -> str:
    return str(conninfo_to_dict(database)["dbname"])


def end_sessions(superuser: Connection[Any], name: str) -> int:
    """End the application's sessions; wait until they are gone."""
    row = superuser.execute(
        "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
        " WHERE datname = %s AND application_name = %s",
        (name, WEB),
    ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def away(superuser: Connection[Any], name: str) -> Iterator[None]:
    """Let the server refuse this database, and end who is in it."""
    allow = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    superuser.execute(allow.format(sql.Identifier(name), sql.SQL("false")))
    end_sessions(superuser, name)
    try:
        yield
    finally:
        superuser.execute(allow.format(sql.Identifier(name), sql.SQL("true")))


def every_request() -> list[tuple[str, str, dict[str, Any]]]:
    """Name a good request to each route."""
    id_ = UUID(int=1)  # the same in every process that collects
    line = b'{"event_type":"a","payload":1}'
    acts = {
        "deliveries": ("replay", "discard"),
        "replays": ("start", "pause", "resume", "cancel"),
        "discards": ("start", "cancel"),
        "subscriptions": ("pause", "resume", "rotate-secret", "revoke-secret", "test"),
    }
    subscription = {"name": "a", "url": "http://127.0.0.1:9009/"}
    return [
        ("POST", "/events/a.b", {"data": b"{}", "content_type": "application/json"}),
        ("POST", "/events", {"data": line, "content_type": "application/x-ndjson"}),
        ("GET", f"/events/{id_}", {}),
        ("GET", "/deliveries", {}),
        ("GET", f"/deliveries/{id_}", {}),
        ("GET", f"/deliveries/{id_}/timeline", {}),
        ("GET", f"/deliveries/{id_}/attempts/1", {}),
        ("POST", f"/deliveries/{id_}/payload/reveal", {}),
        ("GET", "/replays", {}),
        ("POST", "/replays", {"json": {"filter": {}}}),
        ("POST", "/discards", {"json": {"filter": {}}}),
        ("GET", f"/discards/{id_}", {}),
        ("GET", f"/replays/{id_}", {}),
        ("GET", "/subscriptions", {}),
        ("POST", "/subscriptions", {"json": subscription}),
        ("GET", f"/subscriptions/{id_}", {}),
        ("PATCH", f"/subscriptions/{id_}", {"json": {"name": "b"}}),
        ("DELETE", f"/subscriptions/{id_}", {}),
        ("GET", "/stats", {}),
        ("GET", "/audit", {}),
        ("GET", "/workers", {}),
        *(("POST", f"/{thing}/{id_}/{act}", {}) for thing in acts for act in acts[thing]),
    ]


REQUESTS = every_request()


def test_every_route_is_among_these(api: Api) -> None:
    rules = api.client.application.url_map.iter_rules()
    routes = [rule.methods or set() for rule in rules if rule.endpoint.startswith("api.")]
    assert sum(len(methods - {"HEAD", "OPTIONS"}) for methods in routes) == len(REQUESTS)


@pytest.mark.parametrize(("method", "path", "options"), REQUESTS, ids=lambda each: str(each)[:40])
def test_without_a_server_every_route_answers_503(
    environment: dict[str, str], method: str, path: str, options: dict[str, Any]
) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    app = create_app(Settings.load(environment | {"FENCEPOST_DATABASE_URL": nowhere}))
    token = f"fp_{'0' * 32}_{'A' * 43}"
    roles: tuple[Role, ...] = ("viewer", "operator", "admin")
    api = Api(app.test_client(), dict.fromkeys(roles, token))
    response = api.call(method, path, status=503, **options)
    document: Any = response.json
    assert document["code"] == "database_unavailable"
    assert int(response.headers["Retry-After"]) > 0
    with app.app_context():
        db.engine.dispose()


def test_an_outage_is_over_when_it_is_over(
    api: Api, superuser: Connection[Any], name: str, count_events: Callable[[], int]
) -> None:
    api.publish("a.b", b"{}")
    before = count_events()
    with away(superuser, name):
        for _ in range(12):  # more than the pool has connections
            assert api.publish("a.b", b"{}", status=503)["code"] == "database_unavailable"
    assert api.publish("a.b", b"{}")["duplicate"] is False
    assert count_events() == before + 1


def test_a_restart_between_two_requests_costs_neither(
    api: Api, superuser: Connection[Any], name: str
) -> None:
    api.get("/deliveries")
    assert end_sessions(superuser, name) >= 1
    api.get("/deliveries")


def test_a_session_that_dies_under_a_request_leaves_nothing_behind(
    api: Api,
    owner: Connection[Any],
    superuser: Connection[Any],
    name: str,
    count_events: Callable[[], int],
) -> None:
    before = count_events()
    key = {"Idempotency-Key": "dies-under-a-request"}
    with ThreadPoolExecutor(1) as aside, owner.transaction():
        # Who publishes under this key waits for us.
        owner.execute(
            "INSERT INTO webhook_idempotency_keys (key, event_id)"
            " VALUES ('dies-under-a-request', gen_random_uuid())"
        )
        answer = aside.submit(api.publish, "a.b", b"{}", headers=key, status=503)
        eventually(lambda: waiting(superuser, name))
        end_sessions(superuser, name)
        assert answer.result()["code"] == "database_unavailable"
        raise psycopg.Rollback
    assert count_events() == before
    assert api.publish("a.b", b"{}", headers=key)["duplicate"] is False


def waiting(superuser: Connection[Any], name: str) -> bool:
    """Tell whether the application waits for a lock."""
    row = superuser.execute(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = %s AND application_name = %s AND wait_event_type = 'Lock'",
        (name, WEB),
    ).fetchone()
    return row is not None and row[0] > 0


def test_a_read_that_takes_too_long_is_stopped_with_advice(
    api: Api, owner: Connection[Any]
) -> None:
    with owner.transaction():
        owner.execute("LOCK TABLE webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        response = api.call("GET", "/deliveries", status=503)
        raise psycopg.Rollback
    document: Any = response.json
    assert (document["code"], "Narrow" in document["detail"]) == ("too_slow", True)
    api.get("/deliveries")


def test_no_transaction_is_left_open(api: Api, superuser: Connection[Any], name: str) -> None:
    for method, path, options in REQUESTS:
        api.call(method, path, **options)
    api.get("/deliveries?state=nothing", status=422)
    api.publish("a b", b"{}", status=422)
    open_ = superuser.execute(
        "SELECT count(*), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity"
        " WHERE datname = %s AND application_name = %s",
        (name, WEB),
    ).fetchone()
    assert open_ is not None
    assert open_[0] >= 1
    assert open_[1] == 0


def test_a_schema_that_is_not_there_is_a_503(
    environment: dict[str, str], role_tokens: dict[Role, str]
) -> None:
    app = create_app(Settings.load(environment | {"FENCEPOST_SCHEMA": "elsewhere"}))
    api = Api(app.test_client(), role_tokens)
    assert api.get("/deliveries", status=503)["code"] == "schema_unknown"
    with app.app_context():
        db.engine.dispose()
