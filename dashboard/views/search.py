"""``/search``: from an id, a key or a name to the page of the thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from flask import Blueprint, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.database import connection
from dashboard.htmx import render
from dashboard.roles import requires
from fencepost.store.lookup import Found, look_up

blueprint = Blueprint("search", __name__)

_LONGEST: Final = 2_000
_PAGES: Final[Mapping[str, Callable[[Found], str]]] = MappingProxyType(
    {
        "delivery": lambda it: url_for("deliveries.show", delivery_id=it.id),
        "event": lambda it: url_for("events.show", event_id=it.id),
        "replay": lambda it: url_for("replays.show", replay_id=it.id),
        "subscription": lambda it: url_for("subscriptions.show", subscription_id=it.id),
        "worker": lambda it: url_for("deliveries.index", worker=it.id),
    }
)


@blueprint.get("/search")
@requires("viewer")
def index() -> BaseResponse:
    """Lead to what was found; of several, show which."""
    text = request.args.get("q", "").strip()[:_LONGEST]
    found = look_up(connection(), text)
    if len(found) == 1:
        return redirect(_PAGES[found[0].kind](found[0]), 303)
    return render(
        "search/index.html", text=text, hits=[(each, _PAGES[each.kind](each)) for each in found]
    )
