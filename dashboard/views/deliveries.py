"""``/deliveries``: the list. One delivery is ``dashboard.views.delivery``."""

from __future__ import annotations

from flask import Blueprint, Response, g, request

from dashboard import filter_form, presenters
from dashboard.database import connection
from dashboard.htmx import render_list, render_region
from dashboard.ids import pack_ids, unpack_ids
from dashboard.listing import read_filter, read_listing, read_news
from dashboard.names import keys_of, names_of
from dashboard.roles import requires
from fencepost.store.deliveries import refresh_deliveries

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
        keys=keys_of({row.event_id for row in listing.rows}),
        gone=frozenset(),
        form=filter_form.read(listing.params),
    )


@blueprint.get("/_f/deliveries/rows")
@requires("viewer")
def rows() -> Response:
    """Refresh the rows that are shown, wherever they would stand by now.

    They are named one by one: a row that the filter matches no longer stays, with its new
    state, and one that it matches since does not push the others away.
    """
    scope, shown = read_filter(), request.args.get("ids", "")
    found = refresh_deliveries(connection(), scope, unpack_ids(shown))
    rows = [row for row, _ in found]
    gone = frozenset(row.id for row, matches in found if not matches)
    return render_region(
        "deliveries/list.html",
        "rows",
        version=[(row.id, row.seq, presenters.phase(row, g.now), row.id in gone) for row in rows],
        rows=rows,
        gone=gone,
        ids=shown,
        params=scope.to_params(),
        names=names_of({row.subscription_id for row in rows}),
        keys=keys_of({row.event_id for row in rows}),
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
