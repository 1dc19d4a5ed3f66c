"""``/deliveries``: the list, one delivery's timeline, and what an operator can do to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, abort, g, request, url_for
from sqlalchemy import select
from werkzeug.wrappers import Response as BaseResponse

from dashboard import filter_form, story
from dashboard.database import connection, transaction
from dashboard.htmx import go, render, render_list, render_region
from dashboard.ids import pack_ids, read_id, unpack_ids
from dashboard.listing import read_filter, read_listing
from dashboard.models import Delivery, Subscription, db
from dashboard.names import names_of
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost import timeline, timeline_text
from fencepost.cursors import Cursors
from fencepost.errors import InvalidInputError
from fencepost.states import Cause, State, causes_from
from fencepost.store import deliveries, operators
from fencepost.store.conditions import read_clock

blueprint = Blueprint("deliveries", __name__)

_MOST_NEW: Final = 100


@dataclass(frozen=True, slots=True)
class Action:
    """What a person can do to a delivery, in words."""

    name: str
    label: str
    effect: str
    icon: str
    kind: str = ""


ACTIONS: Final[Mapping[Cause, Action]] = MappingProxyType(
    {
        Cause.SEND_NOW: Action(
            "replay", "Send now", "The attempt that waits is made at once, on the same budget.",
            "play",
        ),
        Cause.REPLAY: Action(
            "replay", "Replay",
            "It is sent again with the same webhook-id and a fresh budget of attempts. A receiver "
            "that already acted on it will see it again.", "replay",
        ),
        Cause.DISCARD: Action(
            "discard", "Discard", "It is given up for good: nothing is deleted, and bulk replays "
            "pass over it.", "bin", "danger",
        ),
    }
)  # fmt: skip
"""The buttons of a delivery are those of ``causes_from(state)`` that are in here."""


@blueprint.get("/deliveries")
@requires("viewer")
def index() -> Response:
    """List deliveries, newest first."""
    listing = read_listing(connection(), "deliveries.index")
    return render_list(
        "deliveries/list.html",
        url=listing.url,
        listing=listing,
        ids=pack_ids(row.id for row in listing.rows),
        form=filter_form.read(listing.params),
    )


@blueprint.get("/_f/deliveries/rows")
@requires("viewer")
def rows() -> Response:
    """Refresh the rows that are shown, wherever they would stand by now."""
    ids = unpack_ids(request.args.get("ids", ""))
    found = {
        row.id: row for row in db.session.scalars(select(Delivery).where(Delivery.id.in_(ids)))
    }
    shown = [found[id_] for id_ in ids if id_ in found]
    wanted = read_filter().state
    return render_region(
        "deliveries/list.html",
        "rows",
        version=[(row.id, row.seq) for row in shown],
        rows=shown,
        ids=request.args.get("ids", ""),
        states=request.args.getlist("state"),
        wanted=wanted,
        names=names_of({row.subscription_id for row in shown}),
    )


@blueprint.get("/_f/deliveries/new")
@requires("viewer")
def new_rows() -> Response:
    """Count what has come in since the list was read; the list itself does not move."""
    scope = read_filter()
    top = Cursors(runtime().secret).read(
        request.args.get("top") or None, scope=scope.fingerprint(), field="top"
    )
    page = deliveries.list_deliveries(connection(), scope, limit=_MOST_NEW, before=top)
    return render_region(
        "deliveries/list.html",
        "new_rows",
        version=len(page.rows),
        new=len(page.rows),
        most=_MOST_NEW,
        params=scope.to_params(),
        top=request.args.get("top"),
    )


@blueprint.get("/deliveries/<delivery_id>")
@requires("viewer")
def show(delivery_id: str) -> Response:
    """Show one delivery with its timeline."""
    return render("deliveries/show.html", **_story(read_id(delivery_id, "delivery")))


@blueprint.get("/_f/deliveries/<delivery_id>/timeline")
@requires("viewer")
def timeline_region(delivery_id: str) -> Response:
    """Refresh the timeline."""
    found = _story(read_id(delivery_id, "delivery"))
    delivery, told = found["delivery"], found["timeline"]
    version = (delivery.seq, len(told.fenced), found["is_paused"], found["may_act"])
    return render_region("deliveries/show.html", "timeline", version=version, **found)


@blueprint.get("/deliveries/<delivery_id>/confirm/<name>")
@requires("operator")
def confirm(delivery_id: str, name: str) -> Response:
    """Ask before something is done to a delivery."""
    return _ask(read_id(delivery_id, "delivery"), name)


@blueprint.post("/deliveries/<delivery_id>/<any(replay, discard):name>")
@requires("operator")
def act(delivery_id: str, name: str) -> BaseResponse:
    """Do it, and show what became of it."""
    found = read_id(delivery_id, "delivery")
    action = operators.replay_delivery if name == "replay" else operators.discard_delivery
    try:
        with transaction() as conn:
            action(conn, found, actor=str(g.actor), reason=request.form.get("reason"))
    except InvalidInputError as error:
        return _ask(found, name, faults={error.field: str(error)}, status=422)
    return go(url_for("deliveries.show", delivery_id=found))


def _ask(
    delivery_id: UUID, name: str, *, faults: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    delivery = deliveries.get_delivery(connection(), delivery_id)
    action = next((one for one in _actions(delivery.current_state) if one.name == name), None)
    if action is None and name not in {one.name for one in ACTIONS.values()}:
        abort(404)
    return render(
        "deliveries/confirm.html",
        status=status,
        delivery=delivery,
        action=action,
        name=name,
        faults=faults,
        reason=request.form.get("reason", ""),
    )


def _story(delivery_id: UUID) -> dict[str, Any]:
    conn = connection()
    delivery = deliveries.get_delivery(conn, delivery_id)
    subscription = db.session.get(Subscription, delivery.subscription_id)
    is_paused = subscription is not None and subscription.state == "paused"
    told = timeline.build(
        deliveries.read_trail(conn, delivery_id),
        delivery=delivery,
        fenced=deliveries.read_fenced(conn, delivery_id),
        now=read_clock(conn),
        is_paused=is_paused,
    )
    actions = _actions(delivery.current_state) if delivery.discarded_at is None else []
    return {
        "delivery": delivery,
        "subscription": subscription,
        "timeline": told,
        "lines": list(story.tell(told)),
        "shares": story.shares(told),
        "text": timeline_text.as_text(told.rows, told.fenced),
        "actions": actions,
        "may_act": bool(actions),
        "is_paused": is_paused,
    }


def _actions(state: State) -> list[Action]:
    possible = causes_from(state)
    return [action for cause, action in ACTIONS.items() if cause in possible]
