"""Who is asking, and may they: one authentication and one check for every route."""

from __future__ import annotations

from typing import Final

from flask import Flask, Response, current_app, g, request, session
from werkzeug.exceptions import Forbidden, Unauthorized

from dashboard.api.problem import request_id
from dashboard.csrf import SESSION_SECONDS, cookie_name
from dashboard.database import connection, transaction
from dashboard.roles import PUBLIC, Actor, Role, declared_role
from fencepost.store import logins, tokens
from fencepost.store.actions import log_action
from fencepost.store.conditions import read_clock

_COOKIE: Final = "fencepost_session"
_BEARER: Final = "bearer "
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def init_app(app: Flask) -> None:
    """Check every request before anything else looks at it."""
    app.before_request(authorize)


def authorize() -> None:
    """Let a request pass when its route says who may, and the asker is one of them.

    A route that declares nothing is closed to everybody: forgetting a declaration shows
    at once, and opens nothing.

    Raises:
        Unauthorized: nobody is logged in.
        Forbidden: the role is not enough; what they tried to change is logged.
        DatabaseUnavailableError: it cannot be told.
    """
    if request.endpoint is None:
        return  # no such route: Flask answers 404 or 405 next
    needed = declared_role(current_app.view_functions[request.endpoint])
    if needed == PUBLIC:
        return
    actor = authenticate()
    if actor is None:
        raise Unauthorized
    if not isinstance(needed, Role) or not actor.role.may(needed):
        if request.method not in _READS:
            _log_denied(actor)
        raise Forbidden(f"This needs the role {needed or 'of nobody'}; yours is {actor.role}.")
    g.actor = actor
    if not _is_api():
        g.now = read_clock(connection())


def authenticate() -> Actor | None:
    """Tell who asks: by token where one is given, else by cookie; None: nobody we know.

    The API looks at tokens alone, so that no other site can use a browser's login there.
    """
    header = request.headers.get("Authorization")
    if header is not None:
        return _by_token(header)
    return None if _is_api() else by_session()


def by_session() -> Actor | None:
    """Tell whose cookie it is; the database decides, so that a closed session is closed."""
    cookie = request.cookies.get(cookie_name(_COOKIE))
    if not cookie:
        return None
    with transaction() as conn:  # it writes down when the session was used last
        user = logins.read_session(conn, cookie)
    return None if user is None else Actor(user.name, Role(user.role), "user")


def session_key() -> bytes | None:
    """Give what the database knows the session of this request by; None: it came with none."""
    cookie = request.cookies.get(cookie_name(_COOKIE))
    return None if not cookie or "Authorization" in request.headers else logins.session_key(cookie)


def begin_session(response: Response, token: str) -> None:
    """Hand out the cookie of a session, and a form token that nobody knew before."""
    session.clear()
    response.set_cookie(
        cookie_name(_COOKIE),
        token,
        max_age=SESSION_SECONDS,
        httponly=True,
        secure=request.is_secure,
        samesite="Lax",
    )


def end_session(response: Response) -> None:
    """Close the session in the database and take its cookie back."""
    name = cookie_name(_COOKIE)
    if cookie := request.cookies.get(name):
        with transaction() as conn:
            logins.close_session(conn, cookie)
    session.clear()
    response.delete_cookie(name, secure=request.is_secure, httponly=True, samesite="Lax")


def _by_token(header: str) -> Actor | None:
    if header[: len(_BEARER)].lower() != _BEARER:
        return None
    with transaction() as conn:  # it writes down when the token was used last
        found = tokens.read_token(conn, header[len(_BEARER) :].strip())
    return None if found is None else Actor(found.name, Role(found.role), "token")


def _is_api() -> bool:
    return request.blueprint == "api"


def _log_denied(actor: Actor) -> None:
    ids = [str(value) for name, value in (request.view_args or {}).items() if name.endswith("_id")]
    with transaction() as conn:
        log_action(
            conn,
            actor=str(actor),
            action=str(request.endpoint),
            target=next(iter(ids), "-")[:100],
            outcome="denied",
            request_id=request_id(),
        )
