"""What errors become: a table, and that no route of the blueprint answers in another form."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy.exc
from flask import Blueprint, Flask, abort
from flask.testing import FlaskClient
from psycopg_pool import PoolTimeout
from werkzeug.exceptions import BadRequest, MethodNotAllowed, TooManyRequests, Unauthorized

from dashboard.api.faults import describe
from dashboard.api.handlers import install
from dashboard.api.ndjson import LineError, TooManyLinesError
from dashboard.api.problem import ProblemError, tame
from dashboard.database import TooSlowError
from fencepost import errors


def wrapped(error: BaseException) -> sqlalchemy.exc.DBAPIError:
    return sqlalchemy.exc.OperationalError("SELECT", {}, error)


TABLE: list[tuple[Exception, int, str]] = [
    (LineError(3, "body", "no object.", parses=False), 400, "invalid_json"),
    (BadRequest(), 400, "bad_request"),
    (Unauthorized(), 401, "unauthenticated"),
    (errors.NotFoundError("gone"), 404, "not_found"),
    (MethodNotAllowed(["POST", "GET"]), 405, "method_not_allowed"),
    (errors.ConflictError("it is DELIVERED"), 409, "conflict"),
    (errors.IdempotencyConflictError("used"), 409, "idempotency_key_reused"),
    (TooManyLinesError("body", "too many"), 413, "too_large"),
    (ProblemError(415, "no gzip"), 415, "unsupported_media_type"),
    (errors.InvalidInputError("url", "bad"), 422, "invalid"),
    (LineError(3, "event_type", "bad"), 422, "invalid"),
    (TooManyRequests(retry_after=7), 429, "too_many_requests"),
    (errors.DatabaseUnavailableError("away"), 503, "database_unavailable"),
    (errors.SchemaError("old"), 503, "schema_unknown"),
    (TooSlowError("slow"), 503, "too_slow"),
    (PoolTimeout(), 503, "database_unavailable"),
    (sqlalchemy.exc.TimeoutError(), 503, "database_unavailable"),
    (psycopg.OperationalError("connection refused"), 503, "database_unavailable"),
    (psycopg.InterfaceError("the connection is closed"), 503, "database_unavailable"),
    (psycopg.errors.AdminShutdown(), 503, "database_unavailable"),
    (psycopg.errors.CannotConnectNow(), 503, "database_unavailable"),
    (psycopg.errors.TooManyConnections(), 503, "database_unavailable"),
    (psycopg.errors.DiskFull(), 503, "database_unavailable"),
    (psycopg.errors.ReadOnlySqlTransaction(), 503, "database_unavailable"),
    (psycopg.errors.QueryCanceled(), 503, "too_slow"),
    (wrapped(psycopg.errors.QueryCanceled()), 503, "too_slow"),
    (wrapped(psycopg.OperationalError("reset")), 503, "database_unavailable"),
    (psycopg.errors.DeadlockDetected(), 503, "busy"),
    (psycopg.errors.SerializationFailure(), 503, "busy"),
    (psycopg.errors.LockNotAvailable(), 503, "busy"),
    (psycopg.errors.UndefinedColumn(), 500, "defect"),
    (psycopg.errors.CheckViolation(), 500, "defect"),
    (ValueError("ours"), 500, "defect"),
]


@pytest.mark.parametrize(("error", "status", "code"), TABLE, ids=lambda value: str(value)[:40])
def test_every_error_has_its_status(error: Exception, status: int, code: str) -> None:
    problem = describe(error)
    assert (problem.status, problem.code) == (status, code)
    assert ("Retry-After" in problem.headers) == (status in {429, 503})


def test_a_defect_says_nothing_of_itself() -> None:
    assert "ours" not in describe(ValueError("ours")).detail


@pytest.fixture(name="client")
def _client() -> Iterator[FlaskClient]:
    """An application whose own handlers would answer in HTML, as the dashboard's do."""
    blueprint = Blueprint("probe", __name__, url_prefix="/api/v1")
    install(blueprint)

    @blueprint.get("/raise/<name>")
    def _raise(name: str) -> str:
        raise RAISED[name]

    @blueprint.get("/abort/<int:code>")
    def _abort(code: int) -> str:
        abort(code)

    app = Flask(__name__)
    for code in (404, 405, 422, 500):
        app.register_error_handler(code, lambda _error: ("<html>", 418))
    app.register_blueprint(blueprint)
    with app.test_client() as client:
        yield client


RAISED: dict[str, Exception] = {
    "input": errors.InvalidInputError("na\u202eme" + "x" * 999, "<b>\x00\u202e\ud800" + "y" * 9999),
    "defect": RuntimeError("the secret"),
    "line": LineError(7, "payload", "bad"),
}


def problem_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status
    assert response.content_type == "application/problem+json"
    assert response.json["status"] == status
    assert response.json["type"] == "about:blank"
    assert len(response.json["request_id"]) == 32
    return dict(response.json)


def test_hostile_text_comes_back_tame(client: FlaskClient) -> None:
    response = client.get("/api/v1/raise/input")
    problem = problem_of(response, 422)
    assert response.data.isascii()
    assert problem["title"] == "Unprocessable Content"
    assert problem["field"].startswith("na me")
    assert len(problem["field"]) == 100
    assert len(problem["detail"]) == 500
    assert "\0" not in problem["detail"]


def test_a_line_is_named(client: FlaskClient) -> None:
    problem = problem_of(client.get("/api/v1/raise/line"), 422)
    assert (problem["line"], problem["field"]) == (7, "payload")


def test_a_defect_is_logged_under_the_id_it_is_answered_with(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        response = client.get("/api/v1/raise/defect")
    problem = problem_of(response, 500)
    assert b"secret" not in response.data
    assert f"api.defect request_id={problem['request_id']}" in caplog.text
    assert "RuntimeError: the secret" in caplog.text


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 503])
def test_the_applications_own_pages_stay_out_of_it(client: FlaskClient, code: int) -> None:
    problem_of(client.get(f"/api/v1/abort/{code}"), code)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/v1/abort/x", 404),
        ("POST", "/api/v1/abort/404", 405),
        ("TRACE", "/api/v1/abort/404", 405),
    ],
)
def test_what_has_no_route_gets_a_problem_too(
    client: FlaskClient, method: str, path: str, status: int
) -> None:
    response = client.open(path, method=method, headers={"X-HTTP-Method-Override": "GET"})
    problem_of(response, status)
    assert ("Allow" in response.headers) == (status == 405)


def test_pages_are_left_to_the_application(client: FlaskClient) -> None:
    assert client.get("/nothing").status_code == 418


def test_text_that_is_tame_stays_as_it_is() -> None:
    assert tame("Grüße, 日本 é", 50) == "Grüße, 日本 é"
