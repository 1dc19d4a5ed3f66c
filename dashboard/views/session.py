"""``/login`` and ``/logout``."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.auth import begin_session, by_session, end_session
from dashboard.database import transaction
from dashboard.next_url import safe_next
from dashboard.roles import public
from fencepost.store import logins

blueprint = Blueprint("session", __name__)

_WRONG: Final = "The name or the password is wrong."


@blueprint.get("/login")
@public
def login() -> BaseResponse:
    """Show the form, unless somebody is logged in."""
    if by_session() is not None:
        return redirect(safe_next(request.args.get("next")), 303)
    return _form()


@blueprint.post("/login")
@public
def log_in() -> BaseResponse:
    """Check name and password; an unknown name gets the same answer in the same time."""
    name, password = request.form.get("name", ""), request.form.get("password", "")
    with transaction() as conn:
        found = logins.log_in(conn, name, password, address=request.remote_addr)
    if found.wait_seconds:
        response = _form(f"Too many tries. Wait {found.wait_seconds} s, then try again.", 429)
        response.headers["Retry-After"] = str(found.wait_seconds)
        return response
    if found.session is None:
        return _form(_WRONG, 422)
    return _enter(found.session)


@blueprint.get("/login/<token>")
@public
def link(token: str) -> Response:  # noqa: ARG001  # only the POST looks at it
    """Ask before a one-time link is used up: who only looks ahead must not spend it."""
    return make_response(render_template("session/link.html"))


@blueprint.post("/login/<token>")
@public
def use_link(token: str) -> BaseResponse:
    """Log in by a one-time link."""
    with transaction() as conn:
        user = logins.use_login_link(conn, token)
        opened = None if user is None else logins.open_session(conn, user.id)
    if opened is None:
        fault = "This link was used already, or has expired."
        return make_response(render_template("session/link.html", fault=fault), 422)
    return _enter(opened)


@blueprint.post("/logout")
@public
def logout() -> BaseResponse:
    """End the session."""
    response = make_response(redirect(url_for("session.login"), 303))
    end_session(response)
    return response


def _form(fault: str | None = None, status: int = 200) -> Response:
    page = render_template(
        "session/login.html",
        fault=fault,
        name=request.form.get("name", "")[:200],
        next=request.args.get("next"),
    )
    return make_response(page, status)


def _enter(token: str) -> Response:
    response = make_response(redirect(safe_next(request.args.get("next")), 303))
    begin_session(response, token)
    return response
