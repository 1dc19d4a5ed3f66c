"""Figures of a window of time."""

from __future__ import annotations

from typing import Final

from flask import jsonify, request
from flask.typing import ResponseReturnValue

from dashboard.api.parameters import Parameter, takes
from dashboard.api.routes import blueprint
from dashboard.database import PREVIEW_TIMEOUT, transaction
from dashboard.roles import requires
from fencepost import objects
from fencepost.filters import DeliveryFilter
from fencepost.store import stats

PARAMETERS: Final = (
    Parameter("sub", "of this subscription"),
    Parameter("from", "since this moment, or a time ago such as -15m; -24h when not given"),
    Parameter("to", "before this moment; now when not given"),
)


@blueprint.get("/stats")
@requires("viewer")
@takes(*PARAMETERS)
def read_stats() -> ResponseReturnValue:
    """Give counts by state, how long each stretch took, and how often something went wrong."""
    wanted = DeliveryFilter.from_params(request.args.to_dict(flat=False))
    sub = wanted.sub[0] if wanted.sub else None
    with transaction(timeout=PREVIEW_TIMEOUT) as conn:
        found = stats.read_stats(conn, sub=sub, since=wanted.since, until=wanted.until)
    return jsonify(objects.stats_json(found))
