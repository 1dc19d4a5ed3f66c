"""Bulk discards: a draft with exact counts, then start, cancel."""

from __future__ import annotations

from typing import Any

from flask import jsonify
from flask.typing import ResponseReturnValue

from dashboard.api.acting import acting
from dashboard.api.deliveries import REASON
from dashboard.api.fields import accepts
from dashboard.api.replays import CONFIRM, FILTER
from dashboard.api.routes import blueprint
from dashboard.database import PREVIEW_TIMEOUT, transaction
from dashboard.ids import read_id
from dashboard.roles import requires
from fencepost import objects
from fencepost.filters import DeliveryFilter
from fencepost.store import discards


@blueprint.post("/discards")
@requires("operator")
@accepts(FILTER, REASON)
def draft_discard(body: dict[str, Any]) -> ResponseReturnValue:
    """Fix what would be given up, and count it exactly; no delivery is touched."""
    scope = DeliveryFilter.from_json(body["filter"])
    with acting("discard.draft", asked=body, timeout=PREVIEW_TIMEOUT) as (conn, actor):
        draft = discards.draft_discard(conn, scope, reason=body.get("reason"), actor=actor)
    return jsonify(objects.discard_json(draft)), 201, {"Location": f"/api/v1/discards/{draft.id}"}


@blueprint.get("/discards/<discard_id>")
@requires("viewer")
def read_discard(discard_id: str) -> ResponseReturnValue:
    """Give a discard as it stands."""
    wanted = read_id(discard_id, "discard")
    with transaction() as conn:
        found = discards.get_discard(conn, wanted)
    return jsonify(objects.discard_json(found))


@blueprint.post("/discards/<discard_id>/start")
@requires("operator")
@accepts(REASON, CONFIRM)
def start_discard(discard_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Start a draft; workers do the rest, and starting it again changes nothing."""
    wanted = read_id(discard_id, "discard")
    with acting("discard.start", wanted, asked=body) as (conn, actor):
        found = discards.start_discard(
            conn, wanted, actor=actor, reason=body.get("reason"), confirm=body.get("confirm")
        )
    return jsonify(objects.discard_json(found))


@blueprint.post("/discards/<discard_id>/cancel")
@requires("operator")
@accepts()
def cancel_discard(discard_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Drop a draft, or end a discard; what is given up already stays so."""
    wanted = read_id(discard_id, "discard")
    with acting("discard.cancel", wanted, asked=body) as (conn, actor):
        found = discards.cancel_discard(conn, wanted, actor=actor)
    return jsonify(objects.discard_json(found))
