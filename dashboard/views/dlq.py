"""``/dlq``: the dead letters, and the way to replay all that match."""

from __future__ import annotations

from flask import Blueprint, Response

from dashboard import filter_form
from dashboard.database import connection
from dashboard.htmx import render_list, render_region
from dashboard.listing import dead_letters, read_filter, read_listing, read_news
from dashboard.roles import requires
from fencepost.filters import DeliveryFilter

blueprint = Blueprint("dlq", __name__)


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
    news = read_news(connection(), dead_letters(chosen))
    params = {**chosen.to_params(), "state": [], "discarded": []}
    return render_region("dlq/list.html", "new_rows", version=news, news=news, params=params)
