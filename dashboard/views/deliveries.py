"""``/deliveries``: the list, one delivery's timeline, and what an operator can do to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, g, request, url_for
from sqlalchemy import select
from werkzeug.wrappers import Response as BaseResponse

from dashboard import actions, filter_form, story
from dashboard.actions import Action
from dashboard.database import connection, transaction
from dashboard.htmx import go, render, render_list, render_region
from dashboard.ids import pack_ids, read_id, unpack_ids
from dashboard.listing import read_filter, read_listing, read_news
from dashboard.models import Delivery, Event, Subscription, db
from dashboard.names import names_of
from dashboard.roles import requires
from fencepost import model, timeline, timeline_text
from fencepost.errors import InvalidInputError
from fencepost.states import WAITING
from fencepost.store import deliveries, operators
from fencepost.store.conditions import read_clock

blueprint = Blueprint("deliveries", __name__)


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
    news = read_news(connection(), scope)
    return render_region(
        "deliveries/list.html", "new_rows", version=news, news=news, params=scope.to_params()
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
    version = (
        delivery.seq, len(told.fenced), found["is_held"], found["obstacle"], str(g.actor.role)
    )  # fmt: skip
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
    do = operators.replay_delivery if name == "replay" else operators.discard_delivery
    try:
        with transaction() as conn:
            do(conn, found, actor=str(g.actor), reason=request.form.get("reason"))
    except InvalidInputError as error:
        return _ask(found, name, faults={error.field: str(error)}, status=422)
    return go(url_for("deliveries.show", delivery_id=found))


def _ask(
    delivery_id: UUID, name: str, *, faults: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    if name not in {action.name for action in actions.OF_DELIVERIES.values()}:
        abort(404)
    delivery = deliveries.get_delivery(connection(), delivery_id)
    obstacle = _obstacle(delivery)
    action = next((one for one in _possible(delivery, obstacle) if one.name == name), None)
    return render(
        "deliveries/confirm.html",
        status=status,
        delivery=delivery,
        action=action,
        obstacle=obstacle,
        name=name,
        faults=faults,
        reason=request.form.get("reason", ""),
    )


def _story(delivery_id: UUID) -> dict[str, Any]:
    conn = connection()
    delivery = deliveries.get_delivery(conn, delivery_id)
    subscription = db.session.get(Subscription, delivery.subscription_id)
    is_paused = (
        subscription is not None
        and subscription.state == "paused"
        and subscription.removed_at is None
    )
    told = timeline.build(
        deliveries.read_trail(conn, delivery_id),
        delivery=delivery,
        fenced=deliveries.read_fenced(conn, delivery_id),
        now=read_clock(conn),
        is_paused=is_paused,
    )
    obstacle = _obstacle(delivery)
    return {
        "delivery": delivery,
        "subscription": subscription,
        "timeline": told,
        "lines": list(story.tell(told)),
        "shares": story.shares(told),
        "text": timeline_text.as_text(told.rows, told.fenced),
        "actions": _possible(delivery, obstacle),
        "obstacle": obstacle,
        "is_held": is_paused and delivery.current_state in WAITING,
    }


def _obstacle(delivery: model.Delivery) -> str | None:
    """Say why it cannot be sent any more, whatever its state."""
    subscription = db.session.get(Subscription, delivery.subscription_id)
    if subscription is None or subscription.removed_at is not None:
        return "Its subscription was removed: there is nowhere to send it."
    event = db.session.get(Event, delivery.event_id)
    if event is not None and event.erased_at is not None:
        return "Its payload was erased: there is nothing to send."
    return None


def _possible(delivery: model.Delivery, obstacle: str | None) -> list[Action]:
    return actions.of_delivery(
        delivery.current_state,
        is_discarded=delivery.discarded_at is not None,
        is_sendable=obstacle is None,
    )
