"""``/deliveries``: the list. One delivery is ``dashboard.views.delivery``."""

from __future__ import annotations

from flask import Blueprint, Response, request
from sqlalchemy import select

from dashboard import filter_form
from dashboard.database import connection
from dashboard.htmx import render_list, render_region
from dashboard.ids import pack_ids, unpack_ids
from dashboard.listing import read_filter, read_listing, read_news
from dashboard.models import Delivery, db
from dashboard.names import names_of
from dashboard.roles import requires

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
