"""``/overview``: how it goes, in numbers that each lead to the list behind them."""

from __future__ import annotations

from flask import Blueprint, Response, g, redirect, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.htmx import render, render_region
from dashboard.navigation import Navigation
from dashboard.numbers import read_overview
from dashboard.roles import public, requires

blueprint = Blueprint("overview", __name__)


@blueprint.get("/")
@public
def home() -> BaseResponse:
    """Lead to the overview."""
    return redirect(url_for("overview.index"))


@blueprint.get("/overview")
@requires("viewer")
def index() -> Response:
    """Show the overview."""
    return render("overview/index.html", overview=read_overview(g.now))


@blueprint.get("/_f/overview")
@requires("viewer")
def numbers() -> Response:
    """Refresh all of it."""
    found = read_overview(g.now)
    # A worker's beat alone is no news; that the last one is overdue is.
    version = (found.counts, found.workers, found.subscriptions, found.paused)
    return render_region("overview/index.html", "numbers", version=version, overview=found)


@blueprint.get("/_f/nav")
@requires("viewer")
def nav_count() -> Response:
    """Refresh the count beside "DLQ" in every page's frame."""
    return render_region("_nav_count.html", "count", version=Navigation().dead())
