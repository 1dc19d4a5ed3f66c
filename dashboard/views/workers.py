"""``/workers``: who is at work, what each holds, and what fencing refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, g

from dashboard.database import connection
from dashboard.htmx import render, render_region
from dashboard.roles import requires
from fencepost.store import workers

blueprint = Blueprint("workers", __name__)


@blueprint.get("/workers")
@requires("viewer")
def index() -> Response:
    """Show all workers of the last days."""
    return render("workers/index.html", **_read(g.now))


@blueprint.get("/_f/workers")
@requires("viewer")
def table() -> Response:
    """Refresh them."""
    found = _read(g.now)
    return render_region("workers/index.html", "table", version=found, **found)


def _read(now: datetime) -> Mapping[str, Any]:
    conn = connection()
    rows = workers.list_workers(conn)
    return {
        "rows": [(row, workers.health_of(row, now)) for row in rows],
        "fenced": workers.list_fenced(conn),
    }
