"""Every route says who may use it, and nobody else can."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.roles import PUBLIC, Role, declared_role, requires
from stage import Stage

ID = str(UUID(int=7))
PUBLIC_ENDPOINTS = {
    "assets.favicon", "assets.file", "assets.robots", "health.healthz", "health.readyz",
    "overview.home", "session.link", "session.log_in", "session.login", "session.logout",
    "session.use_link",
}  # fmt: skip
CHANGES = {
    "/deliveries/{id}/replay": "operator",
    "/deliveries/{id}/discard": "operator",
    "/deliveries/{id}/payload/reveal": "operator",
    "/settings": "viewer",
    "/discards": "operator",
    "/discards/{id}/start": "operator",
    "/discards/{id}/cancel": "operator",
    "/replays": "operator",
    "/replays/{id}/start": "operator",
    "/replays/{id}/pause": "operator",
    "/replays/{id}/resume": "operator",
    "/replays/{id}/cancel": "operator",
    "/subscriptions": "admin",
    "/subscriptions/{id}/pause": "operator",
    "/subscriptions/{id}/resume": "operator",
    "/subscriptions/{id}/test": "operator",
    "/subscriptions/{id}/rotate-secret": "admin",
    "/subscriptions/{id}/revoke-secret": "admin",
    "/subscriptions/{id}/remove": "admin",
}


def routes(app: Flask) -> Iterator[tuple[str, Any]]:
    return iter(app.view_functions.items())


def test_every_route_declares_who_may_use_it(app: Flask) -> None:
    assert [name for name, view in routes(app) if declared_role(view) is None] == []


def test_only_these_routes_are_public(app: Flask) -> None:
    found = {name for name, view in routes(app) if declared_role(view) == PUBLIC}
    assert {name for name in found if not name.startswith("api.")} == PUBLIC_ENDPOINTS


def test_a_route_that_declares_nothing_serves_nobody(app: Flask, admin: FlaskClient) -> None:
    # Flask lets nobody add a route after the first request, so the client must not have asked yet.
    app.add_url_rule("/forgotten", view_func=lambda: "secret")
    answer = admin.get("/forgotten")
    assert answer.status_code == 403
    assert "secret" not in answer.text


def test_every_change_of_the_pages_is_in_the_matrix(app: Flask) -> None:
    found = {
        rule.rule.replace("<delivery_id>", "{id}")
        .replace("<discard_id>", "{id}")
        .replace("<replay_id>", "{id}")
        .replace("<subscription_id>", "{id}")
        for rule in app.url_map.iter_rules()
        if "POST" in (rule.methods or ()) and not rule.rule.startswith(("/api/", "/log"))
    }
    expected = {path.rsplit("/", 1)[0] for path in CHANGES} | set(CHANGES)
    unknown = {path for path in found if path not in expected and "<any(" not in path}
    assert unknown == set()


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
def test_a_change_needs_its_role(
    role: str, as_role: Callable[[str], FlaskClient], post: Callable[..., Any], stage: Stage
) -> None:
    client = as_role(role)
    for path, needed in CHANGES.items():
        answer = post(client, path.format(id=ID))
        allowed = Role(role).may(Role(needed))
        assert (answer.status_code != 403) == allowed, path
    refused = [path for path, needed in CHANGES.items() if not Role(role).may(Role(needed))]
    denied = stage.value(
        "SELECT count(*) FROM webhook_operator_actions WHERE outcome = 'denied' AND actor = %s",
        f"user {role} person",
    )
    assert denied == len(refused)


def test_nobody_gets_anything_without_a_login(app: Flask) -> None:
    client = app.test_client()
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if declared_role(view) == PUBLIC or "GET" not in (rule.methods or ()):
            continue
        if rule.endpoint.startswith("api."):
            continue
        values: dict[str, Any] = dict.fromkeys(rule.arguments, ID)
        with app.test_request_context():
            path = rule.build(values, append_unknown=False)
        assert path is not None
        answer = client.get(path[1])
        assert answer.status_code == 302, rule.rule
        assert answer.location.startswith("/login"), rule.rule


def test_a_viewer_sees_no_buttons(viewer: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription()
    (dead,) = stage.dead(sub.id, 1)
    for path in (f"/deliveries/{dead}", "/dlq", "/subscriptions", f"/subscriptions/{sub.id}"):
        page = viewer.get(path).text
        main = page[page.index("<main") : page.index("</main")]
        assert "Replay" not in main
        assert "Pause" not in main
        assert 'href="/subscriptions/new"' not in main
        assert '<form method="post"' not in main


def test_a_token_reads_metrics_and_pages_but_posts_no_form(app: Flask, stage: Stage) -> None:
    client, headers = app.test_client(), {"Authorization": f"Bearer {stage.token('admin')}"}
    assert client.get("/metrics", headers=headers).status_code == 200
    assert client.get("/overview", headers=headers).status_code == 200
    answer = client.post(f"/subscriptions/{uuid4()}/remove", headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize("header", ["Bearer fp_1_2", "Basic abc", "Bearer", ""])
def test_a_bad_token_is_nobody(header: str, viewer: FlaskClient) -> None:
    """Even beside a good cookie: a program that sends a token means the token."""
    answer = viewer.get("/metrics", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_declaration_knows_the_roles() -> None:
    with pytest.raises(ValueError, match="root"):
        requires("root")
