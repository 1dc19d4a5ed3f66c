"""The workers, and what fencing refused."""

from __future__ import annotations

from flask import jsonify
from flask.typing import ResponseReturnValue

from dashboard.api.parameters import takes
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.roles import requires
from fencepost import objects
from fencepost.store import workers
from fencepost.store.conditions import read_clock


@blueprint.get("/workers")
@requires("viewer")
@takes()
def list_workers() -> ResponseReturnValue:
    """List the workers of the last days, and the latest writes that fencing refused."""
    with transaction() as conn:
        now = read_clock(conn)
        rows, fenced = workers.list_workers(conn), workers.list_fenced(conn)
    return jsonify(
        {
            "data": [objects.worker_json(row, health=workers.health_of(row, now)) for row in rows],
            "fenced": [
                {"delivery_id": str(each.delivery_id), **objects.fenced_json(each)}
                for each in fenced
            ],
        }
    )
