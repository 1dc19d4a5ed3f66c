"""What a reader sees when something is wrong: a page that says what, never a traceback."""

from __future__ import annotations

import logging
import secrets
from typing import Final

import psycopg
from flask import Flask, Response, g, make_response, render_template, request
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from werkzeug.exceptions import HTTPException, SecurityError

from dashboard.database import TooSlowError, as_ours, explained
from dashboard.htmx import VARY, is_htmx
from dashboard.models import db
from dashboard.next_url import login_url
from fencepost.errors import (
    ConflictError,
    DatabaseUnavailableError,
    FencepostError,
    InvalidInputError,
    NotFoundError,
    SchemaError,
)

log = logging.getLogger(__name__)

_TITLES: Final = {
    400: "That request could not be read",
    401: "Log in first",
    403: "Not allowed",
    404: "Not found",
    405: "Not done this way",
    409: "It has changed meanwhile",
    413: "Too large",
    422: "Something is not valid",
    429: "Too many tries",
    500: "Something broke",
    503: "Not available right now",
}
_STATUS_OF: Final[tuple[tuple[type[FencepostError], int], ...]] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (InvalidInputError, 422),
    (DatabaseUnavailableError, 503),
    (SchemaError, 503),
)


def init_app(app: Flask) -> None:
    """Answer every error in the form that its reader can use."""
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(FencepostError, _ours)
    app.register_error_handler(psycopg.Error, _driver)
    app.register_error_handler(SQLAlchemyError, _driver)
    app.register_error_handler(Exception, _defect)


def status_of(error: FencepostError) -> int:
    """Give the HTTP status of an error that we raised on purpose."""
    return next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)


def answer(status: int, message: str, *, field: str | None = None) -> Response:
    """Say what is wrong: as a page to a browser, as one line to htmx, which shows it as a banner.

    Args:
        status: 400..599.
        message: one or two sentences; what to do about it is among them.
        field: the parameter that is at fault.
    """
    if status == 401:  # noqa: PLR2004
        return _to_login() if _is_person() else _no_login()
    if is_htmx():
        response = make_response(message, status, {"Content-Type": "text/plain; charset=utf-8"})
    else:
        page = render_template(
            "errors/error.html",
            title=_TITLES.get(status, "That did not work"),
            status=status,
            message=message,
            field=field,
            retries=status == 503 and request.method == "GET",  # noqa: PLR2004
        )
        response = make_response(page, status)
    response.headers["Vary"] = VARY
    if status == 503:  # noqa: PLR2004
        response.headers["Retry-After"] = "5"
    return response


def _is_person() -> bool:
    """Tell a browser's page from a program: a scraper, or the stream of a page."""
    wants_page = "text/html" in request.headers.get("Accept", "text/html")
    return wants_page and "Authorization" not in request.headers


def _no_login() -> Response:
    headers = {"Content-Type": "text/plain; charset=utf-8", "WWW-Authenticate": "Bearer"}
    return make_response("Log in, or send a valid token.\n", 401, headers)


def _to_login() -> Response:
    response = make_response("", 401 if is_htmx() else 302)
    response.headers["HX-Redirect" if is_htmx() else "Location"] = login_url()
    response.headers["Vary"] = VARY
    return response


def _http(error: HTTPException) -> Response:
    if isinstance(error, SecurityError):  # no address of ours can be built for such a host
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        return make_response("This server does not answer to that host name.\n", 400, plain)
    status = error.code or 500
    if status < 400:  # noqa: PLR2004  # a redirect that Flask raises
        return make_response(error.get_response())
    response = answer(status, error.description or "")
    for name, value in error.get_headers():
        if name.lower() in {"allow", "retry-after"}:
            response.headers[name] = value
    return response


def _ours(error: FencepostError) -> Response:
    status = status_of(error)
    if status == 500:  # noqa: PLR2004
        return _defect(error)
    if isinstance(error, DatabaseUnavailableError) and not isinstance(error, TooSlowError):
        _drop_connection()
    field = error.field if isinstance(error, InvalidInputError) else None
    return answer(status, str(error), field=field)


def _driver(error: Exception) -> Response:
    ours = as_ours(error) or explained(error)
    if isinstance(ours, FencepostError):
        return _ours(ours)
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return answer(503, "The database takes no changes right now.")
    if isinstance(cause, psycopg.OperationalError):  # a lock, a deadlock: the next try may do
        return answer(503, "The database is busy with the same rows; try again.")
    return _defect(error)


def _defect(error: Exception) -> Response:
    """Log it with its traceback under an id, and tell the reader the id and nothing more."""
    incident = secrets.token_hex(4)
    log.error("web.defect incident=%s path=%s", incident, request.path, exc_info=error)
    return answer(500, f"This is a defect of ours. The log has it as {incident}.")


def _drop_connection() -> None:
    """Throw away the session's connection, which SQLAlchemy may not know to be dead."""
    db.session().invalidate()
    g.pop("actor", None)
