"""``/events/<id>``: what was published, and the deliveries that came of it."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response, g

from dashboard import strips
from dashboard.database import connection
from dashboard.htmx import render, render_region
from dashboard.ids import read_id
from dashboard.names import names_of
from dashboard.periods import one_of
from dashboard.roles import requires
from fencepost.store import deliveries, events
from fencepost.store.timelines import read_timelines

blueprint = Blueprint("events", __name__)

MOST_SHOWN: Final = 50
"""Deliveries on the page; the list of deliveries has all of them."""
_REDRAWN_EVERY: Final = 2
"""Seconds, while something of it is going on."""


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
    moment = g.now.timestamp() // _REDRAWN_EVERY if found["strips"].is_open else None
    version = (found["event"].is_fanned_out, found["rows"], found["scale"], moment)
    return render_region("events/show.html", "deliveries", version=version, **found)


def _read(event_id: str) -> dict[str, Any]:
    conn = connection()
    scale = one_of("scale", ("linear", "compressed"))
    event = events.get_event(conn, read_id(event_id, "event"))
    rows = deliveries.list_of_event(conn, event.id, limit=MOST_SHOWN + 1)
    shown = rows[:MOST_SHOWN]
    return {
        "event": event,
        "rows": shown,
        "is_cut": len(rows) > len(shown),
        "names": names_of({row.subscription_id for row in shown}),
        "strips": strips.draw(
            read_timelines(conn, shown, g.now), is_compressed=scale == "compressed"
        ),
        "scale": scale,
    }
