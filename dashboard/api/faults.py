"""What each error of ours, of Werkzeug and of the database is to the caller: one table."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import psycopg
from psycopg_pool import PoolTimeout
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolExhaustedError
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from dashboard.api.ndjson import LineError, TooManyLinesError
from dashboard.api.problem import Problem, ProblemError, code_of
from dashboard.database import TooSlowError, as_ours
from fencepost.errors import (
    ConflictError,
    DatabaseUnavailableError,
    IdempotencyConflictError,
    InvalidInputError,
    NotFoundError,
    SchemaError,
)
from fencepost.payloads import InvalidJsonError, PayloadTooLargeError

# The first that fits: subclasses stand before what they are a kind of.
_OURS: Final[tuple[tuple[type[Exception], int, str], ...]] = (
    (TooManyLinesError, 413, "too_large"),
    (PayloadTooLargeError, 413, "too_large"),
    (InvalidJsonError, 400, "invalid_json"),
    (InvalidInputError, 422, "invalid"),
    (NotFoundError, 404, "not_found"),
    (IdempotencyConflictError, 409, "idempotency_key_reused"),
    (ConflictError, 409, "conflict"),
    (TooSlowError, 503, "too_slow"),
    (SchemaError, 503, "schema_unknown"),
    (DatabaseUnavailableError, 503, "database_unavailable"),
)

_HTTP_DETAILS: Final = {
    400: "The request cannot be understood.",
    401: "Send a valid token: Authorization: Bearer <token>.",
    403: "The role of this token does not allow this.",
    404: "There is no such resource.",
    405: "This resource does not have this method.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "This media type is not accepted here.",
    429: "Too many requests; wait as long as Retry-After says.",
}
_DEFECT: Final = Problem(500, "defect", "This is a defect of Fencepost; its log has more.")
_RETRY_AFTER_SECONDS: Final = 5


def describe(error: Exception) -> Problem:
    """Say what an error is to the caller; a 500 when it is a defect of ours."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, HTTPException):
        return _from_http(error)
    if isinstance(error, LineError) and not error.parses:
        return Problem(400, "invalid_json", str(error), line=error.line)
    if isinstance(error, psycopg.Error | DBAPIError | PoolExhaustedError | PoolTimeout):
        return _from_database(error)
    return _from_ours(error)


def _from_ours(error: Exception) -> Problem:
    for kind, status, code in _OURS:
        if isinstance(error, kind):
            retry = {"Retry-After": str(_RETRY_AFTER_SECONDS)}
            return Problem(
                status,
                code,
                str(error),
                field=error.field if isinstance(error, InvalidInputError) else None,
                line=error.line if isinstance(error, LineError) else None,
                headers=retry if status == HTTPStatus.SERVICE_UNAVAILABLE else {},
            )
    return _DEFECT


def _from_database(error: Exception) -> Problem:
    if isinstance(error, PoolTimeout):
        return _unavailable("database_unavailable", "No database connection came free in time.")
    if (ours := as_ours(error)) is not None:
        return _from_ours(ours)
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return _unavailable("database_unavailable", "The database takes no changes right now.")
    if isinstance(cause, psycopg.errors.InvalidParameterValue):
        # The publishing functions refuse what this process let pass: the database was told other
        # limits, by `fencepost migrate`. They quote no values.
        return Problem(422, "invalid", cause.diag.message_primary or "The database refused this.")
    if isinstance(cause, psycopg.OperationalError):
        # Locks, deadlocks, serialization: nothing was changed, and the next try may do.
        return _unavailable("busy", "The database is busy with the same rows; try again.")
    return _DEFECT


def _unavailable(code: str, detail: str) -> Problem:
    return Problem(503, code, detail, headers={"Retry-After": str(_RETRY_AFTER_SECONDS)})


def _from_http(error: HTTPException) -> Problem:
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _DEFECT
    headers: dict[str, str] = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="fencepost"'
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    if (seconds := getattr(error, "retry_after", None)) is not None:
        headers["Retry-After"] = str(seconds)
    detail = _HTTP_DETAILS.get(status, "The request failed.")
    return Problem(status, code_of(status), detail, headers=headers)
