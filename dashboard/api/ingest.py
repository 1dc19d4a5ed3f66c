"""The HTTP door for producers: one event as a raw body, or a batch of them as NDJSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from flask import jsonify, request
from flask.typing import ResponseReturnValue

from dashboard.api.bodies import read_body
from dashboard.api.faults import describe
from dashboard.api.ndjson import Entry, read_entries
from dashboard.api.problem import ProblemError
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost import payloads
from fencepost.errors import IdempotencyConflictError, InvalidInputError
from fencepost.producer import NewEvent, Published
from fencepost.publish import publish_sealed_many

NDJSON: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})

_PLACE: Final = re.compile(r"event (\d+): ")
"""How ``publish_sealed_many`` begins what it says of one event of several."""

_TIMEOUT: Final = "15s"
"""For the statement: a batch waits for those before it that use the same idempotency keys."""


@blueprint.post("/events/<event_type>")
@requires("operator")
def publish_event(event_type: str) -> ResponseReturnValue:
    """Publish one event: the body is its payload, byte for byte.

    ``Content-Type`` is the payload's, ``application/json`` where there is none; ``Idempotency-Key``
    makes posting again safe. The answer, 202, comes after the commit.
    """
    producer = runtime().producer()
    payloads.check_event_type(event_type)
    content_type, key = _content_type(), _idempotency_key()
    body = read_body(producer.max_payload_bytes)
    if not body:
        raise ProblemError(400, "The body is empty; it is the payload.", code="empty_body")
    with transaction(timeout=_TIMEOUT) as conn:
        event = NewEvent(event_type, body, content_type, key)
        (published,) = publish_sealed_many(conn, [event], producer=producer)
    return jsonify(_as_json(published)), 202


@blueprint.post("/events")
@requires("operator")
def publish_batch() -> ResponseReturnValue:
    """Publish up to 1,000 events, one JSON object a line: all of them, or none."""
    if request.mimetype not in NDJSON:
        message = "Send a batch as application/x-ndjson; a single event goes to /events/<type>."
        raise ProblemError(415, message, field="Content-Type")
    if "Idempotency-Key" in request.headers:
        message = "A batch has no key of its own: give each line its idempotency_key."
        raise InvalidInputError("Idempotency-Key", message)
    entries = read_entries(read_body(runtime().settings.max_batch_bytes))
    if not entries:
        raise ProblemError(400, "The body is empty; send one event a line.", code="empty_body")
    events = [
        NewEvent(each.event_type, each.payload, each.content_type, each.idempotency_key)
        for each in entries
    ]
    try:
        with transaction(timeout=_TIMEOUT) as conn:
            published = publish_sealed_many(conn, events, producer=runtime().producer())
    except (InvalidInputError, IdempotencyConflictError) as error:
        raise _at_line(entries, error) from None
    return jsonify({"events": [_as_json(each) for each in published]}), 202


def _at_line(entries: Sequence[Entry], error: Exception) -> ProblemError:
    """Name the line that an event of the batch came in: blank lines count, events do not know."""
    found, problem = _PLACE.match(str(error)), describe(error)
    entry = entries[int(found[1]) - 1] if found else entries[0]
    detail = problem.detail[found.end() :] if found else problem.detail
    return ProblemError(
        problem.status,
        f"Line {entry.line}: {detail}",
        code=problem.code,
        field=problem.field,
        line=entry.line,
    )


def _content_type() -> str:
    """Read the payload's type from the header, where a type that is not accepted is a 415."""
    found = request.headers.get("Content-Type", payloads.JSON)
    try:
        payloads.check_content_type(found)
    except InvalidInputError as error:
        raise ProblemError(415, str(error), field="Content-Type") from None
    return found


def _idempotency_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None:
        try:
            payloads.check_idempotency_key(key)
        except InvalidInputError as error:
            raise InvalidInputError("Idempotency-Key", str(error)) from None
    return key


def _as_json(published: Published) -> dict[str, Any]:
    return {"id": str(published.id), "duplicate": published.duplicate}
