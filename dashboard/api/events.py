"""Events, as they can be read back from the moment of their 202."""

from __future__ import annotations

from flask import jsonify
from flask.typing import ResponseReturnValue

from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.ids import read_id
from dashboard.roles import requires
from fencepost import objects
from fencepost.store import deliveries, events


@blueprint.get("/events/<event_id>")
@requires("viewer")
def read_event(event_id: str) -> ResponseReturnValue:
    """Give one event; ``deliveries`` is null until it has met its subscriptions."""
    wanted = read_id(event_id, "event")
    with transaction() as conn:
        event = events.get_event(conn, wanted)
        found = deliveries.list_of_event(conn, wanted) if event.is_fanned_out else []
    return jsonify(objects.event_json(event, found))
