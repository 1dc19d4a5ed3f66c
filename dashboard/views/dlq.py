"""``/dlq``: the dead letters, and the way to replay all that match."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, request

from dashboard import filter_form
from dashboard.database import connection
from dashboard.htmx import render_list, render_region
from dashboard.listing import dead_letters, read_filter, read_listing
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost.cursors import Cursors
from fencepost.filters import DeliveryFilter
from fencepost.store import deliveries

blueprint = Blueprint("dlq", __name__)

_MOST_NEW: Final = 100


@blueprint.get("/dlq")
@requires("viewer")
def index() -> Response:
    """List the dead letters that nobody gave up, by the moment of entry, latest first."""
    listing = read_listing(connection(), "dlq.index", fixed=dead_letters(DeliveryFilter()))
    return render_list(
        "dlq/list.html",
        url=listing.url,
        listing=listing,
        form=filter_form.read(listing.params),
    )


@blueprint.get("/_f/dlq/new")
@requires("viewer")
def new_rows() -> Response:
    """Count what has entered the DLQ since the list was read; the list itself does not move."""
    chosen = read_filter()
    scope = dead_letters(chosen)
    top = Cursors(runtime().secret).read(
        request.args.get("top") or None, scope=scope.fingerprint(), field="top"
    )
    page = deliveries.list_deliveries(connection(), scope, limit=_MOST_NEW, before=top)
    return render_region(
        "dlq/list.html",
        "new_rows",
        version=len(page.rows),
        new=len(page.rows),
        most=_MOST_NEW,
        params={**chosen.to_params(), "state": [], "discarded": []},
        top=request.args.get("top"),
    )
