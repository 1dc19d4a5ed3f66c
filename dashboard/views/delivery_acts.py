"""What an operator can do to one delivery: replay it, discard it, look at its payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from flask import Response, abort, g, make_response, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard import actions, curl
from dashboard.content import read_content
from dashboard.database import connection, transaction
from dashboard.exchange import headers_to_copy
from dashboard.htmx import go, render
from dashboard.ids import read_id
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.views.deliveries import blueprint
from dashboard.views.delivery import Asked, read_page
from fencepost import explanation, signing
from fencepost.errors import InvalidInputError, KeyUnavailableError, UndecryptableError
from fencepost.store import operators
from fencepost.store.reveals import Revealed, reveal_payload
from fencepost.store.stories import Story, read_story

_SUFFIXES: Final = {"application/json": "json", "text/plain": "txt", "application/xml": "xml"}


@blueprint.get("/deliveries/<delivery_id>/confirm/<name>")
@requires("operator")
def confirm(delivery_id: str, name: str) -> Response:
    """Ask before something is done to a delivery."""
    return _ask(read_id(delivery_id, "delivery"), name)


@blueprint.post("/deliveries/<delivery_id>/<any(replay, discard):name>")
@requires("operator")
def act(delivery_id: str, name: str) -> BaseResponse:
    """Do it, and show what became of it."""
    found = read_id(delivery_id, "delivery")
    do = operators.replay_delivery if name == "replay" else operators.discard_delivery
    try:
        with transaction() as conn:
            do(conn, found, actor=str(g.actor), reason=request.form.get("reason"))
    except InvalidInputError as error:
        return _ask(found, name, faults={error.field: str(error)}, status=422)
    return go(url_for("deliveries.show", delivery_id=found))


@blueprint.post("/deliveries/<delivery_id>/payload/reveal")
@requires("operator")
def reveal(delivery_id: str) -> Response:
    """Show the payload, or hand it out as a file; who looked is on record before it is shown."""
    wanted = read_id(delivery_id, "delivery")
    fault, revealed = None, None
    try:
        with transaction() as conn:
            revealed = reveal_payload(conn, runtime().keyring, wanted, actor=str(g.actor))
    except (KeyUnavailableError, UndecryptableError) as error:
        fault = f"The payload cannot be opened: {error}."
    if revealed is not None and request.form.get("as") == "file":
        return _as_file(revealed)
    found = read_page(wanted, Asked(tab="payload"))
    if revealed is not None:
        found |= {
            "content": read_content(revealed.payload),
            "command": _command(found["story"], revealed),
        }
    return render("deliveries/payload.html", status=409 if fault else 200, fault=fault, **found)


def _command(told: Story, revealed: Revealed) -> str:
    content, event = read_content(revealed.payload), revealed.event
    subscription = told.about.subscription
    return curl.send_by_hand(
        url=subscription.endpoint_masked,
        scheme=subscription.signature_scheme,
        signature_header=signing.header_name(
            subscription.signature_scheme, subscription.signature_header
        ),
        message_id=str(event.id),
        headers=headers_to_copy(told.delivery, event, told.delivery.attempt_count + 1),
        body=content.text if content.fits_a_command else None,
        file_name=_file_name(revealed),
    )


def _as_file(revealed: Revealed) -> Response:
    response = make_response(revealed.payload)
    response.headers["Content-Type"] = "application/octet-stream"
    response.headers["Content-Disposition"] = f'attachment; filename="{_file_name(revealed)}"'
    return response


def _file_name(revealed: Revealed) -> str:
    media_type = revealed.event.content_type.partition(";")[0].strip().lower()
    return f"event-{revealed.event.id}.{_SUFFIXES.get(media_type, 'bin')}"


def _ask(
    delivery_id: UUID, name: str, *, faults: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    if name not in {action.name for action in actions.OF_DELIVERIES.values()}:
        abort(404)
    told = read_story(connection(), delivery_id, limit=1)
    obstacle = explanation.obstacle(told.about)
    possible = actions.of_delivery(
        told.delivery.current_state,
        is_discarded=told.delivery.discarded_at is not None,
        is_sendable=obstacle is None,
    )
    context: dict[str, Any] = {
        "delivery": told.delivery,
        "action": next((one for one in possible if one.name == name), None),
        "obstacle": obstacle,
        "name": name,
        "faults": faults,
        "reason": request.form.get("reason", ""),
    }
    return render("deliveries/confirm.html", status=status, **context)
