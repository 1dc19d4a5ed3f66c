"""``/dlq``: the dead letters by what they died of, or one by one, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flask import Blueprint, Response, request, url_for

from dashboard import filter_form
from dashboard.database import connection
from dashboard.dead_letters import obstacles, read_past, read_totals, shown_groups
from dashboard.export import as_csv
from dashboard.htmx import render_list, render_region
from dashboard.listing import (
    chips,
    dead_letters,
    pinned_url,
    read_filter,
    read_listing,
    read_news,
)
from dashboard.names import names_of
from dashboard.roles import requires
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.store import discards
from fencepost.store.dead_groups import read_groups

blueprint = Blueprint("dlq", __name__)

_ONE_BY_ONE: Final = {"group": "none"}
_OF_A_LIST: Final = frozenset({"after", "before", "limit"})
_MARK_LENGTH: Final = 8


@blueprint.get("/dlq")
@requires("viewer")
def index() -> Response:
    """Show the dead letters that nobody gave up, grouped by cause or as a list."""
    # What only a list has asks for the list.
    is_paged = not _OF_A_LIST.isdisjoint(request.args)
    group = request.args.get("group") or ("none" if is_paged else "signature")
    if group == "none":
        return _list()
    if group != "signature":
        raise InvalidInputError("group", "group is one of signature, none")
    return _groups()


def _list() -> Response:
    conn = connection()
    listing = read_listing(
        conn, "dlq.index", fixed=dead_letters(DeliveryFilter()), kept=_ONE_BY_ONE
    )
    return render_list(
        "dlq/list.html",
        url=listing.url,
        listing=listing,
        obstacles=obstacles(listing.rows),
        **_frame(listing.params, shown=listing.rows, kept=_ONE_BY_ONE),
        pinned_url=listing.pinned_url,
    )


def _groups() -> Response:
    conn, chosen = connection(), _chosen()
    found = read_groups(conn, chosen)
    params = chosen.to_params()
    query: dict[str, Any] = dict(params)
    return render_list(
        "dlq/groups.html",
        url=url_for("dlq.index", **query),
        found=found,
        groups=shown_groups(found, dead_letters(chosen)),
        scope=dead_letters(chosen).to_params(),
        chips=chips("dlq.index", params, names_of(set(chosen.sub)), {}),
        **_frame(params, shown=found.rows, kept={}),
        pinned_url=pinned_url(conn, "dlq.index", chosen, {}),
    )


def _frame(
    params: Mapping[str, list[str]], *, shown: Sequence[object], kept: Mapping[str, str]
) -> dict[str, Any]:
    """Give what both forms of the page have around their rows."""
    conn = connection()
    return {
        "params": params,
        "kept": kept,
        "totals": read_totals(conn),
        "running": discards.list_running(conn),
        "past": None if shown else read_past(conn),
        "form": filter_form.read(params),
    }


@blueprint.get("/dlq/export.csv")
@requires("viewer")
def export() -> Response:
    """Hand out the dead letters that match as a file."""
    return as_csv(dead_letters(_chosen()), name="dead-letters")


@blueprint.get("/_f/dlq/totals")
@requires("viewer")
def totals() -> Response:
    """Refresh the numbers of the head."""
    found = read_totals(connection())
    return render_region("dlq/_page.html", "totals", version=found, totals=found)


@blueprint.get("/_f/dlq/groups")
@requires("viewer")
def groups() -> Response:
    """Refresh the groups: those that are on the page stay where they are."""
    chosen = _chosen()
    found = read_groups(connection(), chosen)
    marks = request.args.get("shown", "")
    before = [marks[at : at + _MARK_LENGTH] for at in range(0, len(marks), _MARK_LENGTH)]
    return render_region(
        "dlq/groups.html",
        "groups",
        version=(found, marks),
        found=found,
        groups=shown_groups(found, dead_letters(chosen), before=before),
        params=chosen.to_params(),
    )


@blueprint.get("/_f/dlq/new")
@requires("viewer")
def new_rows() -> Response:
    """Count what has entered the DLQ since the list was read; the list itself does not move."""
    news = read_news(connection(), dead_letters(_chosen()))
    params = {**_chosen().to_params(), **_ONE_BY_ONE}
    return render_region("dlq/list.html", "new_rows", version=news, news=news, params=params)


def _chosen() -> DeliveryFilter:
    """Read the filter without what the page itself fixes."""
    wanted = read_filter().to_params()
    return DeliveryFilter.from_params(
        {name: values for name, values in wanted.items() if name not in {"state", "discarded"}}
    )
