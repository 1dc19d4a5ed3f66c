"""Answer every error under /api with a problem document, and log the defects."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from flask import Blueprint, Response, make_response, request
from werkzeug.exceptions import HTTPException, default_exceptions

from dashboard.api.faults import describe
from dashboard.api.problem import request_id, respond
from dashboard.database import explained
from dashboard.models import db

PREFIX: Final = "/api/"

_log = logging.getLogger("fencepost.api")


def install(blueprint: Blueprint) -> None:
    """Answer the errors of the blueprint's routes, and of look-ups under /api that find none."""
    blueprint.register_error_handler(Exception, answer)
    # By code too: an application's handler for a code would come before one for a class.
    for code in default_exceptions:
        blueprint.register_error_handler(code, answer)
    blueprint.before_app_request(_answer_unrouted)


def answer(error: Exception) -> Response:
    """Turn an error into its response; log a defect under the id that the caller is given."""
    if isinstance(error, HTTPException) and (error.code or 0) in range(300, 400):
        return make_response(error.get_response(request.environ))
    problem = describe(explained(error))
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("api.defect request_id=%s", request_id(), exc_info=error)
    if problem.code == "database_unavailable":
        # SQLAlchemy may not have seen that its connection is dead: psycopg did.
        db.session().invalidate()
    return respond(problem)


def _answer_unrouted() -> Response | None:
    """Answer where no route was found: such an error belongs to no blueprint."""
    error = request.routing_exception
    if error is None or not request.path.startswith(PREFIX):
        return None
    return answer(error)
