"""``/live``: the stream of signals to one open page."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flask import Blueprint, Response, current_app, request

from dashboard.live import Hub, Viewer
from dashboard.roles import requires
from dashboard.runtime import runtime
from fencepost.errors import InvalidInputError

blueprint = Blueprint("live", __name__)

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TOPIC: Final = re.compile(f"overview|dlq|(delivery|replay):{_UUID}")
_MOST_TOPICS: Final = 16
_BEAT_SECONDS: Final = 15.0
_LIFE_SECONDS: Final = 13 * 60
_LIFE_SPREAD_SECONDS: Final = 4 * 60


@blueprint.get("/live")
@requires("viewer")
def stream() -> Response:
    """Open a stream of the topics in ``t``, as many as this process has room for."""
    topics = frozenset(filter(None, request.args.get("t", "").split(",")))
    if not all(_TOPIC.fullmatch(topic) for topic in topics) or len(topics) > _MOST_TOPICS:
        raise InvalidInputError("t", "These are not topics of a page.")
    hub = runtime().hub
    viewer = hub.join(topics)
    if viewer is None:
        return Response("All streams are taken.\n", 503, {"Retry-After": "15"}, "text/plain")
    build: str = current_app.extensions["fencepost_assets"].build
    response = Response(_events(hub, viewer, build), mimetype="text/event-stream")
    # Not in the generator's own "finally": one that was never started would not run it.
    response.call_on_close(lambda: hub.leave(viewer))
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _events(hub: Hub, viewer: Viewer, build: str) -> Iterator[str]:
    """Write signals as they come and a heartbeat when none does; end after a quarter of an hour.

    The page opens the next one at once: its login is checked again, the load is spread,
    and a deploy drains. Heartbeats are events, so that the page sees them.
    """
    ends = time.monotonic() + _LIFE_SECONDS + secrets.randbelow(_LIFE_SPREAD_SECONDS)
    beat_due = time.monotonic() + 1  # by then the hub has looked at the database's clock
    yield "retry: 2000\n\n"
    while not hub.is_stopping and time.monotonic() < ends:
        if time.monotonic() >= beat_due:
            now = hub.now()
            yield _event(hub, "hb", {"now": now.isoformat() if now else None, "build": build})
            beat_due = time.monotonic() + _BEAT_SECONDS
        told = hub.wait(viewer, seconds=max(0.0, beat_due - time.monotonic()))
        for name, data in told.items():
            yield _event(hub, name, data)
    yield _event(hub, "bye", {})


def _event(hub: Hub, name: str, data: Mapping[str, Any]) -> str:
    """Write one event; its id is the database's clock, the same in every process."""
    now = hub.now()
    mark = f"id: {now.timestamp():.6f}\n" if now else ""
    return f"event: {name}\n{mark}data: {json.dumps(data, separators=(',', ':'))}\n\n"
