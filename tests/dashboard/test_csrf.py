"""Another site cannot use a reader's login, whatever it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from stage import Stage


@pytest.fixture
def path(stage: Stage) -> str:
    return f"/subscriptions/{stage.subscription().id}/pause"


@pytest.fixture
def is_untouched(stage: Stage) -> Callable[[], bool]:
    def check() -> bool:
        return bool(stage.value("SELECT bool_and(state = 'active') FROM webhook_subscriptions"))

    return check


@pytest.mark.parametrize("given", [{}, {"csrf_token": ""}, {"csrf_token": "nonsense"}])
def test_a_form_needs_its_token(
    operator: FlaskClient, path: str, given: dict[str, str], is_untouched: Callable[[], bool]
) -> None:
    assert operator.post(path, data=given).status_code == 403
    assert is_untouched()


def test_a_token_of_another_browser_is_refused(
    as_role: Callable[[str], FlaskClient],
    token: Callable[[FlaskClient], str],
    path: str,
    is_untouched: Callable[[], bool],
) -> None:
    mine, theirs = as_role("operator"), as_role("admin")
    token(mine)
    assert mine.post(path, data={"csrf_token": token(theirs)}).status_code == 403
    assert is_untouched()


def test_htmx_sends_the_token_in_a_header(
    operator: FlaskClient, token: Callable[[FlaskClient], str], path: str, stage: Stage
) -> None:
    headers = {"HX-Request": "true", "X-CSRF-Token": token(operator)}
    answer = operator.post(path, headers=headers)
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"].startswith("/subscriptions/")
    assert stage.value("SELECT state FROM webhook_subscriptions") == "paused"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Origin": "https://evil.example"},
        {"Origin": "https://localhost"},
        {"Origin": "http://localhost:81"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_a_good_token_from_elsewhere_is_refused(
    operator: FlaskClient,
    token: Callable[[FlaskClient], str],
    path: str,
    headers: dict[str, str],
    is_untouched: Callable[[], bool],
) -> None:
    answer = operator.post(path, data={"csrf_token": token(operator)}, headers=headers)
    assert answer.status_code == 403
    assert is_untouched()


def test_our_own_pages_pass(
    operator: FlaskClient, token: Callable[[FlaskClient], str], path: str
) -> None:
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}
    answer = operator.post(path, data={"csrf_token": token(operator)}, headers=headers)
    assert answer.status_code == 303


def test_reading_never_changes_anything(admin: FlaskClient, stage: Stage) -> None:
    sub = stage.subscription().id
    for action in ("pause", "resume", "test", "rotate-secret", "revoke-secret", "remove"):
        assert admin.get(f"/subscriptions/{sub}/{action}").status_code == 405
    for action in ("replay", "discard"):
        assert admin.get(f"/deliveries/{sub}/{action}").status_code == 405
    for action in ("start", "pause", "resume", "cancel"):
        assert admin.get(f"/replays/{sub}/{action}").status_code == 405
    assert admin.get("/logout").status_code == 405


def test_the_api_ignores_cookies(admin: FlaskClient, post: Callable[..., Any]) -> None:
    answer = post(admin, "/api/v1/events/invoice.paid", payload="1")
    assert answer.status_code == 401
