"""``/deliveries/<id>``: one delivery, why it is where it is, and everything that led there."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Response, g, jsonify, make_response, request, url_for

from dashboard import actions, curl, story, trail, waterfall
from dashboard.database import connection
from dashboard.exchange import read_exchange
from dashboard.htmx import render, render_region
from dashboard.ids import read_attempt_number, read_id
from dashboard.roles import Role, requires
from dashboard.runtime import runtime
from dashboard.views.deliveries import blueprint
from fencepost import explanation, objects, timeline_text
from fencepost.action_filter import ActionFilter
from fencepost.errors import (
    InvalidInputError,
    KeyUnavailableError,
    UndecryptableError,
)
from fencepost.store.actions import list_actions
from fencepost.store.deliveries import get_delivery, read_trail
from fencepost.store.events import get_event
from fencepost.store.reveals import Response as Answer
from fencepost.store.reveals import open_response, read_attempt
from fencepost.store.stories import ROWS_AT_ONCE, Story, read_story

TABS: Final = {
    "timeline": "Timeline",
    "attempts": "Attempts",
    "payload": "Payload",
    "audit": "Audit",
}
_SCALES: Final = ("linear", "compressed")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for.

    Attributes:
        tab: which part of the page.
        scale: of the time axis.
        attempt: the one that the axis shows alone; None: all.
        before: the rows with a smaller ``seq``; None: the newest.
        all: leave no stage of a long story out.
        until: when the open bars of the page as it was drawn reach its end, milliseconds.
    """

    tab: str = "timeline"
    scale: str = "linear"
    attempt: int | None = None
    before: int | None = None
    all: bool = False
    until: int | None = None

    def params(self, **other: object) -> dict[str, Any]:
        """Give the parameters of an address that differs from this one in ``other``."""
        given = {
            "tab": self.tab, "scale": self.scale, "attempt": self.attempt, "before": self.before,
            "all": 1 if self.all else None, **other,
        }  # fmt: skip
        defaults = {"tab": "timeline", "scale": "linear"}
        return {
            name: value
            for name, value in given.items()
            if value is not None and value != defaults.get(name)
        }


def read_asked() -> Asked:
    """Read the address; InvalidInputError names the parameter that is at fault."""
    return Asked(
        tab=_one_of("tab", tuple(TABS)),
        scale=_one_of("scale", _SCALES),
        attempt=_number("attempt"),
        before=_number("before"),
        all=request.args.get("all") == "1",
        until=_number("until"),
    )


def _one_of(name: str, values: tuple[str, ...]) -> str:
    given = request.args.get(name) or values[0]
    if given not in values:
        raise InvalidInputError(name, f"{name} is one of {', '.join(values)}.")
    return given


def _number(name: str) -> int | None:
    given = request.args.get(name)
    if not given:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) <= 15):  # noqa: PLR2004
        raise InvalidInputError(name, f"{name} is a whole number.")
    return int(given)


@blueprint.get("/deliveries/<delivery_id>")
@requires("viewer")
def show(delivery_id: str) -> Response:
    """Show one delivery: the tab that the address names."""
    asked = read_asked()
    found = read_page(read_id(delivery_id, "delivery"), asked)
    return render(f"deliveries/{asked.tab}.html", **found)


@blueprint.get("/_f/deliveries/<delivery_id>/timeline")
@requires("viewer")
def timeline_region(delivery_id: str) -> Response:
    """Refresh the timeline."""
    return _region(delivery_id, "deliveries/timeline.html", "timeline")


@blueprint.get("/_f/deliveries/<delivery_id>/head")
@requires("viewer")
def head_region(delivery_id: str) -> Response:
    """Refresh what stands above the other tabs."""
    return _region(delivery_id, "deliveries/_tab.html", "head")


def _region(delivery_id: str, template: str, block: str) -> Response:
    asked = read_asked()
    found = read_page(read_id(delivery_id, "delivery"), asked)
    told: Story = found["story"]
    version = (
        told.delivery.seq, len(told.timeline.fenced), told.explanation, found["obstacle"],
        request.query_string, str(g.actor.role),
        asked.until is not None and _milliseconds(told.about.now) >= asked.until,
    )  # fmt: skip
    return render_region(template, block, version=version, **found)


@blueprint.get("/deliveries/<delivery_id>/timeline.json")
@requires("viewer")
def as_json(delivery_id: str) -> Response:
    """Give the whole timeline as the API does, to a browser that is logged in."""
    told = read_story(connection(), read_id(delivery_id, "delivery"))
    return jsonify(objects.trail_json(told.timeline, told.explanation))


@blueprint.get("/deliveries/<delivery_id>/trail.csv")
@requires("viewer")
def as_csv(delivery_id: str) -> Response:
    """Give every row of the trail for a spreadsheet."""
    conn = connection()
    delivery = get_delivery(conn, read_id(delivery_id, "delivery"))
    text = io.StringIO()
    writer = csv.writer(text)
    for row in read_trail(conn, delivery.id):
        line = {**objects.row_json(row), "detail": trail.as_json(row.detail)}
        if row.seq == 1:
            writer.writerow(line)
        writer.writerow([_harmless(value) for value in line.values()])
    response = make_response(text.getvalue())
    response.headers["Content-Type"] = "text/csv; charset=utf-8"
    name = f"delivery-{delivery.id}.csv"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _harmless(value: object) -> object:
    """Keep a spreadsheet from taking a text for a formula."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value


@blueprint.get("/deliveries/<delivery_id>/attempts/<number>")
@requires("viewer")
def attempt(delivery_id: str, number: str) -> Response:
    """Show one attempt: the request, the answer, and how long each step took."""
    which = read_attempt_number(number)
    found = read_page(read_id(delivery_id, "delivery"), Asked(tab="attempts"))
    told: Story = found["story"]
    conn = connection()
    rows = read_attempt(conn, told.delivery.id, which)
    answer, fault = _answer(told.delivery.id, which)
    exchange = read_exchange(
        rows,
        which,
        delivery=told.delivery,
        event=get_event(conn, told.delivery.event_id),
        subscription=told.about.subscription,
        response=answer,
    )
    then = timeline_text.describe(exchange.after, before=exchange.outcome) if exchange.after else ""
    return render("deliveries/attempt.html", exchange=exchange, fault=fault, then=then, **found)


def _answer(delivery_id: UUID, number: int) -> tuple[Answer | None, str | None]:
    """Open the kept answer for those who may see it; else say why it cannot be shown."""
    if not g.actor.role.may(Role.OPERATOR):
        return None, "Answers are shown to operators."
    try:
        return open_response(connection(), runtime().endpoint_keyring, delivery_id, number), None
    except (KeyUnavailableError, UndecryptableError) as error:
        return None, f"The answer cannot be opened: {error}."


def read_page(delivery_id: UUID, asked: Asked) -> dict[str, Any]:
    """Read what all tabs of a delivery show, and what the one that is asked for needs."""
    conn = connection()
    told = read_story(conn, delivery_id, before=asked.before, limit=ROWS_AT_ONCE)
    delivery, about = told.delivery, told.about
    obstacle = explanation.obstacle(about)
    found: dict[str, Any] = {
        "asked": asked,
        "story": told,
        "delivery": delivery,
        "subscription": about.subscription,
        "timeline": told.timeline,
        "obstacle": obstacle,
        "is_held": explanation.is_held(delivery, about),
        "actions": actions.of_delivery(
            delivery.current_state,
            is_discarded=delivery.discarded_at is not None,
            is_sendable=obstacle is None,
        ),
        "tabs": TABS,
        "link": url_for(
            "deliveries.show", delivery_id=delivery.id, _external=True, **asked.params()
        ),
    }
    match asked.tab:
        case "timeline":
            drawn = waterfall.draw(
                told.timeline,
                is_compressed=asked.scale == "compressed",
                attempt=asked.attempt,
                is_whole=asked.all,
            )
            found |= {
                "fall": drawn,
                "until": _until(about.now, drawn.room_ms),
                "shares": story.shares(told.timeline),
                "lines": list(trail.lines(told.timeline)),
                "text": timeline_text.as_text(told.timeline.rows, told.timeline.fenced),
            }
        case "attempts":
            stages = story.stages(told.timeline)
            found["sent"] = [story.sending(told.timeline, one) for one in stages if one.was_sent]
        case "payload":
            found["event"] = get_event(conn, delivery.event_id)
            found["by_api"] = curl.replay_through_api(request.url_root.rstrip("/"), delivery.id)
        case _:
            found["lines"] = list(trail.lines(told.timeline))
            found["as_json"] = trail.as_json
            found["acts"] = list_actions(conn, ActionFilter(target=str(delivery.id))).rows
    return found


def _until(now: datetime, room_ms: int | None) -> int | None:
    return None if room_ms is None else _milliseconds(now) + room_ms


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
