"""``/events/<id>``: what was published, and the deliveries that came of it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from dashboard.database import connection
from dashboard.htmx import render, render_region
from dashboard.ids import read_id
from dashboard.names import names_of
from dashboard.roles import requires
from fencepost.store import deliveries, events

blueprint = Blueprint("events", __name__)


@blueprint.get("/events/<event_id>")
@requires("viewer")
def show(event_id: str) -> Response:
    """Show one event; its payload is not on the page."""
    return render("events/show.html", **_read(event_id))


@blueprint.get("/_f/events/<event_id>/deliveries")
@requires("viewer")
def show_deliveries(event_id: str) -> Response:
    """Refresh what became of it."""
    found = _read(event_id)
    version = (found["event"].is_fanned_out, found["rows"])
    return render_region("events/show.html", "deliveries", version=version, **found)


def _read(event_id: str) -> dict[str, Any]:
    conn = connection()
    event = events.get_event(conn, read_id(event_id, "event"))
    rows = deliveries.list_of_event(conn, event.id)
    names = names_of({row.subscription_id for row in rows})
    return {"event": event, "rows": rows, "names": names}
