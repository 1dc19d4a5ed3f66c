"""``/events/<id>``: what was published, and the deliveries that came of it."""

from __future__ import annotations

from flask import Blueprint, Response

from dashboard.database import connection
from dashboard.htmx import render
from dashboard.ids import read_id
from dashboard.names import names_of
from dashboard.roles import requires
from fencepost.store import deliveries, events

blueprint = Blueprint("events", __name__)


@blueprint.get("/events/<event_id>")
@requires("viewer")
def show(event_id: str) -> Response:
    """Show one event; its payload is not on the page."""
    conn = connection()
    event = events.get_event(conn, read_id(event_id, "event"))
    found = deliveries.list_of_event(conn, event.id)
    return render(
        "events/show.html",
        event=event,
        rows=found,
        names=names_of({row.subscription_id for row in found}),
    )
