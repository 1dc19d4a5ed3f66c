"""How people get in, and how they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.next_url import safe_next
from stage import PASSWORD, Stage

Post = Callable[..., Any]


def test_a_right_password_opens_a_session(app: Flask, stage: Stage, post: Post) -> None:
    stage.user("Dana", "viewer")
    client = app.test_client()
    answer = post(client, "/login", name=" dana ", password=PASSWORD)
    assert (answer.status_code, answer.location) == (303, "/overview")
    assert client.get("/overview").status_code == 200


def test_a_login_leads_back_to_what_was_asked_for(app: Flask, stage: Stage, post: Post) -> None:
    stage.user()
    client = app.test_client()
    asked = client.get("/deliveries?state=dlq&limit=25")
    assert asked.location == "/login?next=/deliveries?state%3Ddlq%26limit%3D25"
    answer = post(client, asked.location, name="dana", password=PASSWORD)
    assert answer.location == "/deliveries?state=dlq&limit=25"


def test_unknown_people_and_wrong_passwords_get_the_same_answer(
    app: Flask, stage: Stage, post: Post
) -> None:
    stage.user()
    client = app.test_client()
    tries = [("dana", "wrong"), ("nobody", "wrong"), ("dana", ""), ("", ""), ("dana", "x" * 2000)]
    for name, password in tries:
        answer = post(client, "/login", name=name, password=password)
        assert answer.status_code == 422
        assert "The name or the password is wrong." in answer.text
    assert stage.value("SELECT count(*) FROM webhook_sessions") == 1  # the one made for the test


def test_a_megabyte_is_no_password(app: Flask, post: Post) -> None:
    answer = post(app.test_client(), "/login", name="dana", password="x" * 1_000_000)
    assert answer.status_code == 422


def test_more_than_a_form_can_be_is_refused(app: Flask, post: Post) -> None:
    answer = post(app.test_client(), "/login", name="dana", password="x" * 3_000_000)
    assert answer.status_code == 413


def test_guessing_is_slowed_down(app: Flask, stage: Stage, post: Post) -> None:
    stage.user()
    client = app.test_client()
    answers = [post(client, "/login", name="dana", password="guess") for _ in range(7)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["Retry-After"]) > 0
    right = post(client, "/login", name="dana", password=PASSWORD)
    assert right.status_code == 429


def test_logging_out_ends_the_session_everywhere(app: Flask, stage: Stage, post: Post) -> None:
    cookie = stage.user()
    client, copied = app.test_client(), app.test_client()
    for each in (client, copied):
        each.set_cookie("fencepost_session", cookie)
    assert post(client, "/logout").location == "/login"
    assert copied.get("/overview").status_code == 302


def test_a_new_login_has_a_new_form_token(
    app: Flask, stage: Stage, post: Post, token: Callable[[FlaskClient], str]
) -> None:
    stage.user()
    client = app.test_client()
    before = token(client)
    post(client, "/login", name="dana", password=PASSWORD)
    assert client.post("/logout", data={"csrf_token": before}).status_code == 403


@pytest.mark.parametrize("cookie", ["", "garbage", "x" * 5000, "\N{SNOWMAN}"])
def test_a_made_up_cookie_is_nobody(app: Flask, cookie: str) -> None:
    client = app.test_client(use_cookies=False)
    sent = f"fencepost_session={cookie}".encode().decode("latin-1")
    assert client.get("/overview", headers={"Cookie": sent}).status_code == 302


def test_a_disabled_user_is_out_at_once(app: Flask, stage: Stage) -> None:
    client = app.test_client()
    client.set_cookie("fencepost_session", stage.user())
    assert client.get("/overview").status_code == 200
    stage.conn.execute("UPDATE webhook_users SET disabled_at = fencepost_now()")
    assert client.get("/overview").status_code == 302


def test_a_demoted_user_is_demoted_at_once(stage: Stage, admin: FlaskClient) -> None:
    assert admin.get("/subscriptions/new").status_code == 200
    stage.conn.execute("UPDATE webhook_users SET role = 'viewer'")
    assert admin.get("/subscriptions/new").status_code == 403


def test_a_link_is_good_for_one_login(app: Flask, stage: Stage, post: Post) -> None:
    link = f"/login/{stage.link()}"
    client = app.test_client()
    for _ in range(2):  # looking at it spends nothing
        assert "Log in" in client.get(link).text
    assert post(client, link).location == "/overview"
    assert client.get("/overview").status_code == 200
    again = post(app.test_client(), link)
    assert again.status_code == 422
    assert "used already" in again.text


def test_a_cookie_on_plain_http_has_a_plain_name(app: Flask, stage: Stage, post: Post) -> None:
    stage.user()
    answer = post(app.test_client(), "/login", name="dana", password=PASSWORD)
    (cookie,) = session_cookies(answer, "fencepost_session")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie


def test_a_cookie_behind_tls_is_bound_to_the_host(
    make_app: Callable[..., Flask], stage: Stage
) -> None:
    stage.user()
    client = make_app(proxy_hops=1).test_client()
    tls = {"X-Forwarded-Proto": "https"}
    page = client.get("/login", headers=tls)
    assert all("Secure" in cookie for cookie in page.headers.getlist("Set-Cookie"))
    token = page.text.split('name="csrf_token" value="')[1].split('"')[0]
    answer = client.post(
        "/login",
        data={"name": "dana", "password": PASSWORD, "csrf_token": token},
        headers=tls,
        base_url="https://localhost",
    )
    (cookie,) = session_cookies(answer, "__Host-fencepost_session")
    assert {"Secure", "Path=/", "HttpOnly"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert "max-age" in answer.headers["Strict-Transport-Security"]


def session_cookies(answer: Any, name: str) -> list[str]:
    return [each for each in answer.headers.getlist("Set-Cookie") if each.startswith(f"{name}=")]


@pytest.mark.parametrize(
    "wanted",
    [
        None, "", "//evil.com", "/\\evil.com", "////evil.com", "/\t/evil.com", "https:evil.com",
        "\\\\evil.com", "javascript:alert(1)", "@evil.com", "http://evil.com/x", "evil.com",
        "/a\r\nSet-Cookie: x=1", "/a b", "/%0a\x00", "///",
    ],
)  # fmt: skip
def test_a_doubtful_place_to_go_leads_home(wanted: str | None) -> None:
    assert safe_next(wanted) == "/overview"


@pytest.mark.parametrize("wanted", ["/dlq", "/deliveries?state=dlq&q=%2F%2Fx", "/replays/1#x"])
def test_a_page_of_ours_is_kept(wanted: str) -> None:
    assert safe_next(wanted) == wanted


def test_a_hostile_next_never_leaves_the_site(app: Flask, stage: Stage, post: Post) -> None:
    stage.user()
    for wanted in ("////evil.com", "/%5Cevil.com", "//evil.com", "/a%0d%0aX: y", "https:evil.com"):
        answer = post(app.test_client(), f"/login?next={wanted}", name="dana", password=PASSWORD)
        assert answer.location == "/overview"
