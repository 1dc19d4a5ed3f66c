"""``/audit``: what people and tokens did, and what they were refused."""

from __future__ import annotations

import json
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for

from dashboard.database import connection
from dashboard.filter_form import WINDOWS
from dashboard.htmx import render_list
from dashboard.preferences import rows_per_page
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost.action_filter import OUTCOMES, ActionFilter
from fencepost.cursors import Cursors
from fencepost.errors import InvalidInputError
from fencepost.filter_values import parse_id
from fencepost.records import Action
from fencepost.store.actions import list_actions

blueprint = Blueprint("audit", __name__)

_PAGES: Final = {
    "delivery": ("deliveries.show", "delivery_id"),
    "deliveries": ("deliveries.show", "delivery_id"),
    "replay": ("replays.show", "replay_id"),
    "replays": ("replays.show", "replay_id"),
    "subscription": ("subscriptions.show", "subscription_id"),
    "subscriptions": ("subscriptions.show", "subscription_id"),
    "event": ("events.show", "event_id"),
    "events": ("events.show", "event_id"),
}
"""By the subject of an act; what was denied is logged under the name of its route."""


@blueprint.get("/audit")
@requires("viewer")
def index() -> Response:
    """List acts, the newest first."""
    scope = ActionFilter.from_params(request.args.to_dict(flat=False), known_only=True)
    cursors, mark = Cursors(runtime().secret), scope.fingerprint()
    after, before = request.args.get("after"), request.args.get("before")
    if after and before:
        raise InvalidInputError("before", "give either after or before")
    page = list_actions(
        connection(),
        scope,
        limit=rows_per_page(),
        after=cursors.read(after or None, scope=mark, field="after"),
        before=cursors.read(before or None, scope=mark, field="before"),
    )
    chosen: dict[str, Any] = dict(scope.to_params())
    return render_list(
        "audit/index.html",
        url=url_for(".index", **chosen, after=after or None, before=before or None),
        chosen=chosen,
        rows=[(row, _link(row), _asked(row)) for row in page.rows],
        newest_url=url_for(".index", **chosen) if after or before else None,
        prev_url=_at(chosen, before=cursors.write(page.prev, scope=mark)),
        next_url=_at(chosen, after=cursors.write(page.next, scope=mark)),
        outcomes=OUTCOMES,
        windows=WINDOWS,
    )


def _at(chosen: dict[str, Any], **cursor: str | None) -> str | None:
    if not any(cursor.values()):
        return None
    return url_for(".index", **{**chosen, **cursor})


def _link(row: Action) -> str | None:
    """Give the page of what it was done to, where it has one."""
    page = _PAGES.get(row.action.partition(".")[0].removeprefix("api."))
    id_: UUID | None = parse_id(row.target)
    if page is None or id_ is None:
        return None
    values: dict[str, Any] = {page[1]: id_}
    return url_for(page[0], **values)


def _asked(row: Action) -> str:
    """Write what was asked for, one line; why comes first, for the line may be cut."""
    given = {name: value for name, value in (row.params or {}).items() if value is not None}
    return ", ".join(
        f"{name.replace('_', ' ')}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in sorted(given.items(), key=lambda each: each[0] != "reason")
    )
