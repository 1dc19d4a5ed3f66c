"""What went out and what came back: a delivery's payload, and one attempt at it."""

from __future__ import annotations

import base64
import hashlib

from flask import g, jsonify
from flask.typing import ResponseReturnValue

from dashboard.api.acting import acting
from dashboard.api.fields import accepts
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.exchange import read_exchange
from dashboard.ids import read_attempt_number, read_id
from dashboard.roles import Role, requires
from dashboard.runtime import runtime
from fencepost import objects
from fencepost.errors import ConflictError, KeyUnavailableError, UndecryptableError
from fencepost.store import reveals
from fencepost.store.events import get_event
from fencepost.store.stories import read_story


@blueprint.get("/deliveries/<delivery_id>/attempts/<number>")
@requires("viewer")
def read_attempt(delivery_id: str, number: str) -> ResponseReturnValue:
    """Give one attempt: its request, its rows of the trail and, to operators, the kept answer."""
    wanted, which = read_id(delivery_id, "delivery"), read_attempt_number(number)
    response, fault = None, None
    with transaction() as conn:
        story = read_story(conn, wanted, limit=1)
        rows = reveals.read_attempt(conn, wanted, which)
        event = get_event(conn, story.delivery.event_id)
        if g.actor.role.may(Role.OPERATOR):
            try:
                response = reveals.open_response(conn, runtime().endpoint_keyring, wanted, which)
            except (KeyUnavailableError, UndecryptableError) as error:
                fault = f"The answer cannot be opened: {error}."
    exchange = read_exchange(
        rows,
        which,
        delivery=story.delivery,
        event=event,
        subscription=story.about.subscription,
        response=response,
    )
    return jsonify(
        {
            "delivery_id": str(wanted),
            "attempt": which,
            "url": exchange.url,
            "ip": exchange.ip,
            "headers": [list(pair) for pair in exchange.headers],
            "steps": {step.name: step.ms for step in exchange.steps},
            "rows": [objects.row_json(row) for row in rows],
            "response": None if response is None else _response_json(response),
            "response_fault": fault,
        }
    )


@blueprint.post("/deliveries/<delivery_id>/payload/reveal")
@requires("operator")
@accepts()
def reveal_payload(delivery_id: str, body: dict[str, object]) -> ResponseReturnValue:
    """Give the payload exactly as it was published; who asked is in the log of actions first."""
    del body
    wanted = read_id(delivery_id, "delivery")
    with acting("payload.reveal", wanted) as (conn, actor):
        try:
            found = reveals.reveal_payload(conn, runtime().keyring, wanted, actor=actor)
        except (KeyUnavailableError, UndecryptableError) as error:
            raise ConflictError(f"The payload cannot be opened: {error}.") from error
    return jsonify(
        {
            "event_id": str(found.event.id),
            "event_type": found.event.event_type,
            "content_type": found.event.content_type,
            "bytes": len(found.payload),
            "sha256": hashlib.sha256(found.payload).hexdigest(),
            "payload_base64": base64.b64encode(found.payload).decode(),
        }
    )


def _response_json(response: reveals.Response) -> dict[str, object]:
    return {
        "status": response.status,
        "headers": [list(pair) for pair in response.headers],
        "body_base64": base64.b64encode(response.body).decode(),
        "is_truncated": response.is_truncated,
    }
