"""The problem document (RFC 9457) that every error under /api is answered with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from flask import Response, g

MEDIA_TYPE: Final = "application/problem+json"

_MAX_DETAIL: Final = 500
_MAX_FIELD: Final = 100

# Python 3.11 still has the names of RFC 7231.
_TITLES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}
_CODES: Final = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "too_many_requests",
    503: "unavailable",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, for the program that called and for its author."""

    status: int
    code: str
    """Stable: what a program branches on."""
    detail: str
    """One sentence for a person, which says what to do."""
    field: str | None = None
    """The field, parameter or header at fault, as the caller wrote it."""
    line: int | None = None
    """Of an NDJSON body, from 1."""
    headers: Mapping[str, str] = dataclass_field(default_factory=lambda: MappingProxyType({}))


class ProblemError(Exception):
    """Raised where a fault of the request is known as the problem that it is."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        field: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(status, code or code_of(status), detail, field, line)


def code_of(status: int) -> str:
    """Give the code of a status that says all there is to say."""
    return _CODES.get(status, "http_error")


def respond(problem: Problem) -> Response:
    """Write a problem as a response."""
    document: dict[str, object] = {
        "type": "about:blank",  # RFC 9457: the title is the status's; ``code`` says more
        "title": _TITLES.get(problem.status, HTTPStatus(problem.status).phrase),
        "status": problem.status,
        "code": problem.code,
        "detail": tame(problem.detail, _MAX_DETAIL),
        "request_id": request_id(),
    }
    if problem.field is not None:
        document["field"] = tame(problem.field, _MAX_FIELD)
    if problem.line is not None:
        document["line"] = problem.line
    # In ASCII: whatever a hostile value brought in leaves as an escape.
    response = Response(json.dumps(document) + "\n", problem.status, mimetype=MEDIA_TYPE)
    response.headers.extend(problem.headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def request_id() -> str:
    """Give the id of this request: it is in the answer, the log and the audit log."""
    if "request_id" not in g:
        g.request_id = uuid4().hex
    return str(g.request_id)


# Controls, and what changes the direction or hides parts of a text.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def tame(text: str, limit: int) -> str:
    """Make text that may quote the request safe to show: one line, bounded, no tricks."""
    flat = _UNPRINTABLE.sub(" ", text)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
