"""``/overview``: how it goes, in numbers that each lead to the list behind them."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, cast

from flask import Blueprint, Response, g, redirect, request, url_for
from sqlalchemy import select
from werkzeug.wrappers import Response as BaseResponse

from dashboard import names
from dashboard.database import connection
from dashboard.definitions import DEFINITIONS
from dashboard.htmx import render_list, render_region
from dashboard.models import Subscription, db
from dashboard.navigation import Navigation
from dashboard.overview import is_empty, read_crew, read_overview
from dashboard.periods import Period, read_period
from dashboard.plots import ENOUGH, SEGMENTS, Charts
from dashboard.roles import public, requires
from dashboard.subscription_table import read_table
from fencepost.store.figures import read_pulse

blueprint = Blueprint("overview", __name__)

_ROWS: Final = 20
_MINUTE: Final = timedelta(minutes=1)
"""Charts move on with it."""
_MOMENT: Final = timedelta(seconds=10)
"""What waits changes with the clock alone."""


@blueprint.get("/")
@public
def home() -> BaseResponse:
    """Lead to the overview."""
    return redirect(url_for("overview.index"))


@blueprint.get("/overview")
@requires("viewer")
def index() -> Response:
    """Show the overview."""
    period = read_period()
    return render_list(
        "overview/index.html",
        url=url_for(".index", **period.params()),
        choices=names.choices(),
        **_frame(period),
        **_about_tiles(period),
        charts=Charts(period),
        **_about_tables(period),
    )


@blueprint.get("/_f/overview/tiles")
@requires("viewer")
def tiles() -> Response:
    """Refresh the sentence and the tiles."""
    period = read_period()
    found = _about_tiles(period)
    version = (found["overview"].version, str(g.actor.role))
    return render_region("overview/index.html", "tiles", version=version, **_frame(period), **found)


@blueprint.get("/_f/overview/charts")
@requires("viewer")
def charts() -> Response:
    """Refresh the charts and the percentiles."""
    period = read_period()
    frame = _frame(period)
    pulse = read_pulse(connection(), period.drawn, period.sub)
    version = (period.params(), pulse, _ticks(_MINUTE), frame["is_empty"])
    return render_region(
        "overview/index.html", "charts", version=version, charts=Charts(period), **frame
    )


@blueprint.get("/_f/overview/tables")
@requires("viewer")
def tables() -> Response:
    """Refresh the workers and the subscriptions."""
    period = read_period()
    found = _about_tables(period)
    rows = [(worker.worker_id, worker.leases, health) for worker, health in found["crew"].rows]
    pulse = read_pulse(connection(), period.window)
    version = (period.params(), pulse, rows, _ticks(_MOMENT))
    return render_region(
        "overview/index.html", "tables", version=version, **_frame(period), **found
    )


@blueprint.get("/_f/nav")
@requires("viewer")
def nav_count() -> Response:
    """Refresh the count beside "DLQ" in every page's frame."""
    nav = Navigation()
    return render_region("_nav_count.html", "count", version=nav.dead, nav=nav)


def _frame(period: Period) -> dict[str, Any]:
    def link(**other: str) -> str:
        return url_for(".index", **period.params(**other))

    return {
        "period": period,
        "link": link,
        "defined": DEFINITIONS,
        "segments": SEGMENTS,
        "enough": ENOUGH,
        "is_empty": is_empty(),
    }


def _about_tiles(period: Period) -> dict[str, Any]:
    newest = select(Subscription.id).where(Subscription.removed_at.is_(None))
    return {
        "overview": read_overview(period, g.now),
        "newest": db.session.scalar(newest.order_by(Subscription.id.desc()).limit(1)),
        "api_root": request.url_root.rstrip("/"),
    }


def _about_tables(period: Period) -> dict[str, Any]:
    return {
        "crew": read_crew(g.now),
        "read_table": partial(read_table, period, limit=_ROWS),
    }


def _ticks(length: timedelta) -> int:
    """Number the stretches of that length since the beginning of time."""
    return int(cast("datetime", g.now).timestamp() // length.total_seconds())
