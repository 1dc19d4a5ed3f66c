"""``/subscriptions``: the list with its figures, and the page of one of them."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from flask import Blueprint, Response, g, request, url_for

from dashboard.database import connection
from dashboard.definitions import DEFINITIONS
from dashboard.htmx import render_list, render_region
from dashboard.ids import read_id
from dashboard.periods import one_of, read_period
from dashboard.plots import ENOUGH, SEGMENTS, Charts
from dashboard.presenters import minute
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.subscription_page import read_lists, read_state
from dashboard.subscription_table import NEWEST, SORTS, STATES, read_rows, read_table
from fencepost.cursors import Cursors
from fencepost.store import subscriptions
from fencepost.store.figures import read_pulse

blueprint = Blueprint("subscriptions", __name__)

_SCOPE: Final = "subscriptions"
_SHOW: Final = "subscriptions/show.html"
_ROWS: Final = 100
"""Of the table, where it is sorted by a figure: who is beyond them does well."""


@blueprint.get("/subscriptions")
@requires("viewer")
def index() -> Response:
    """List subscriptions with their figures: some sorted by one of them, or all by their age."""
    found = _list()
    return render_list(
        "subscriptions/list.html", url=found["here"], table=found.pop("read_table")(), **found
    )


@blueprint.get("/_f/subscriptions")
@requires("viewer")
def list_region() -> Response:
    """Refresh their figures."""
    found = _list()
    table = found.pop("read_table")()
    version = (table, found["here"], str(g.actor.role))
    return render_region("subscriptions/list.html", "rows", version=version, table=table, **found)


@blueprint.get("/subscriptions/<subscription_id>")
@requires("viewer")
def show(subscription_id: str) -> Response:
    """Show one subscription."""
    frame = _frame(subscription_id)
    id_, period = frame["id"], frame["period"]
    found = frame | read_state(id_) | read_lists(id_, period)
    return render_list(_SHOW, url=frame["link"](), charts=Charts(period), **found)


@blueprint.get("/_f/subscriptions/<subscription_id>/state")
@requires("viewer")
def state_region(subscription_id: str) -> Response:
    """Refresh what it is, and how it stands."""
    frame = _frame(subscription_id)
    found = read_state(frame["id"])
    version = (found, frame["period"].params(), str(g.actor.role))
    return render_region(_SHOW, "state", version=version, **frame | found)


@blueprint.get("/_f/subscriptions/<subscription_id>/charts")
@requires("viewer")
def charts_region(subscription_id: str) -> Response:
    """Refresh its charts."""
    frame = _frame(subscription_id)
    id_, period = frame["id"], frame["period"]
    found = subscriptions.get_subscription(connection(), id_, with_removed=True)
    pulse = read_pulse(connection(), period.drawn, id_)
    version = (pulse, minute(g.now), period.params())
    return render_region(
        _SHOW, "charts", version=version, subscription=found, charts=Charts(period), **frame
    )


@blueprint.get("/_f/subscriptions/<subscription_id>/lists")
@requires("viewer")
def lists_region(subscription_id: str) -> Response:
    """Refresh its answers, its dead letters and its newest deliveries."""
    frame = _frame(subscription_id)
    found = read_lists(frame["id"], frame["period"])
    newest = [(row.id, row.seq) for row in found["rows"]]
    version = (found["answers"], found["groups"], newest, frame["period"].params())
    return render_region(_SHOW, "lists", version=version, **frame | found)


def _frame(subscription_id: str) -> dict[str, Any]:
    """Read the address: which subscription, and which stretch of time."""
    id_ = read_id(subscription_id, "subscription")
    period = read_period(id_)

    def link(**other: str | None) -> str:
        return url_for(".show", subscription_id=id_, **period.params(**{"sub": None, **other}))

    return {
        "id": id_, "period": period, "link": link, "defined": DEFINITIONS,
        "segments": SEGMENTS, "enough": ENOUGH,
    }  # fmt: skip


def _list() -> dict[str, Any]:
    """Read what is asked for, and how to read the table."""
    period = read_period()
    sort = one_of("sort", (*SORTS, NEWEST))
    state = one_of("state", ("", *STATES)) or None

    def link(**other: str | None) -> str:
        shown = {"seg": None, "state": state, "sort": None if sort == "failing" else sort, **other}
        return url_for(".index", **period.params(**shown))

    found: dict[str, Any] = {
        "period": period, "link": link, "sort": sort, "state": state, "here": link(),
        "defined": DEFINITIONS, "enough": ENOUGH, "prev": None, "next": None,
    }  # fmt: skip
    if sort != NEWEST:
        read = partial(read_table, period, sort=sort, state=state, limit=_ROWS)
        return found | {"read_table": read}
    cursors = Cursors(runtime().secret)
    after, before = request.args.get("after") or None, request.args.get("before") or None
    page = subscriptions.list_subscriptions(
        connection(),
        after=cursors.read(after, scope=_SCOPE, field="after"),
        before=cursors.read(before, scope=_SCOPE, field="before"),
    )
    return found | {
        "read_table": partial(read_rows, [row.id for row in page.rows], period),
        "here": link(after=after, before=before),
        "next": link(after=cursors.write(page.next, scope=_SCOPE)) if page.next else None,
        "prev": link(before=cursors.write(page.prev, scope=_SCOPE)) if page.prev else None,
    }
