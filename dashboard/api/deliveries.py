"""Deliveries: the list, one of them, its timeline, and what can be done to it."""

from __future__ import annotations

from typing import Any, Final

from flask import jsonify, request
from flask.typing import ResponseReturnValue

from dashboard.api.acting import acting
from dashboard.api.fields import Field, accepts
from dashboard.api.pages import as_page, read_positions
from dashboard.api.parameters import WINDOW, Parameter, takes
from dashboard.api.routes import blueprint
from dashboard.database import transaction
from dashboard.ids import read_id
from dashboard.roles import requires
from fencepost import objects
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.store import deliveries, operators
from fencepost.store.actions import LONGEST_REASON
from fencepost.store.stories import read_story

FILTERS: Final = tuple(
    Parameter(name, description, repeatable=True)
    for name, description in {
        "id": "this delivery",
        "sub": "of this subscription",
        "state": "in this state: received, encrypted, leased, attempted, retried, delivered, dlq",
        "phase": "doing this now: waiting, sleeping, inflight, parked",
        "type": "whose event type matches this glob",
        "from": "made since: a moment, or a time ago such as -15m; of the DLQ alone: entered since",
        "to": "made before; likewise",
        "code": "last answered with: 503, 5xx, 400-499, none",
        "err": "whose last failure was of this class",
        "min_attempts": "with at least so many attempts",
        "max_attempts": "with at most so many attempts",
        "q": "whose id or event id begins so, or whose event has this idempotency key",
        "replay": "last touched by this replay",
        "worker": "that this worker has held",
        "fenced": "1: with a late write that fencing refused; 0: without",
        "discarded": "1: given up by an operator; 0: not",
    }.items()
)
"""``fencepost.filters`` judges them, repetition included."""

ORDERS: Final = ("newest", "oldest")
SORT: Final = Parameter("sort", "newest (when not given) or oldest first")

REASON: Final = Field(
    "reason", "string", "why; shown in the timeline", nullable=True, max_length=LONGEST_REASON
)


@blueprint.get("/deliveries")
@requires("viewer")
@takes(*FILTERS, SORT, *WINDOW)
def list_deliveries() -> ResponseReturnValue:
    """List deliveries by age; those of the DLQ alone by the moment at which they entered it."""
    also = [parameter.name for parameter in (SORT, *WINDOW)]
    scope = DeliveryFilter.from_params(request.args.to_dict(flat=False), also=also)
    order = request.args.get("sort", ORDERS[0])
    if order not in ORDERS:
        raise InvalidInputError("sort", f"sort is one of {', '.join(ORDERS)}")
    is_oldest_first = order == "oldest"
    mark = f"{scope.fingerprint()} {order}" if is_oldest_first else scope.fingerprint()
    window = read_positions(mark)
    with transaction() as conn:
        page = deliveries.list_deliveries(
            conn,
            scope,
            limit=window.limit,
            after=window.after,
            before=window.before,
            is_oldest_first=is_oldest_first,
        )
    return as_page(page, objects.delivery_json, scope=mark)


@blueprint.get("/deliveries/<delivery_id>")
@requires("viewer")
def read_delivery(delivery_id: str) -> ResponseReturnValue:
    """Give one delivery."""
    wanted = read_id(delivery_id, "delivery")
    with transaction() as conn:
        found = deliveries.get_delivery(conn, wanted)
    return jsonify(objects.delivery_json(found))


@blueprint.get("/deliveries/<delivery_id>/timeline")
@requires("viewer")
def read_timeline(delivery_id: str) -> ResponseReturnValue:
    """Give the trail of a delivery, what it makes of the time, refused late writes, and why."""
    wanted = read_id(delivery_id, "delivery")
    with transaction() as conn:
        story = read_story(conn, wanted)
    return jsonify(objects.trail_json(story.timeline, story.explanation))


@blueprint.post("/deliveries/<delivery_id>/replay")
@requires("operator")
@accepts(REASON)
def replay_delivery(delivery_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Send a delivery again: one that waits at once, one that is finished with a fresh budget."""
    wanted = read_id(delivery_id, "delivery")
    with acting("delivery.replay", wanted, asked=body) as (conn, actor):
        found = operators.replay_delivery(conn, wanted, actor=actor, reason=body.get("reason"))
    return jsonify(objects.delivery_json(found))


@blueprint.post("/deliveries/<delivery_id>/discard")
@requires("operator")
@accepts(REASON)
def discard_delivery(delivery_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Give a delivery up; nothing is deleted, and bulk replays pass over it."""
    wanted = read_id(delivery_id, "delivery")
    with acting("delivery.discard", wanted, asked=body) as (conn, actor):
        found = operators.discard_delivery(conn, wanted, actor=actor, reason=body.get("reason"))
    return jsonify(objects.delivery_json(found))
