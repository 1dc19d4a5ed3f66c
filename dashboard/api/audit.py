"""The operator log: what people and tokens did, and what they were refused."""

from __future__ import annotations

from typing import Final

from flask import request
from flask.typing import ResponseReturnValue

from dashboard.api.pages import as_page, read_positions
from dashboard.api.parameters import WINDOW, Parameter, takes
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.roles import requires
from fencepost import objects
from fencepost.action_filter import OUTCOMES, ActionFilter
from fencepost.store.actions import list_actions

FILTERS: Final = (
    Parameter("actor", "by this one: `user dana`, `token ci`"),
    Parameter("action", "this act, or all on one subject: `delivery.replay`, `delivery`"),
    Parameter("target", "done to the thing with this id"),
    Parameter("outcome", f"one of {' '.join(OUTCOMES)}"),
    Parameter("from", "since this moment, or a time ago such as -15m"),
    Parameter("to", "before this moment; likewise"),
)


@blueprint.get("/audit")
@requires("viewer")
@takes(*FILTERS, *WINDOW)
def list_audit() -> ResponseReturnValue:
    """List acts, the newest first."""
    also = [parameter.name for parameter in WINDOW]
    scope = ActionFilter.from_params(request.args.to_dict(flat=False), also=also)
    window = read_positions(scope.fingerprint())
    with transaction() as conn:
        page = list_actions(
            conn, scope, limit=window.limit, after=window.after, before=window.before
        )
    return as_page(page, objects.action_json, scope=scope.fingerprint())
