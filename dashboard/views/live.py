"""``/live``: the stream of signals to one open page."""

from __future__ import annotations

import json
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from flask import Blueprint, Response, current_app, request

from dashboard.auth import session_key
from dashboard.live import Hub
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.signals import Viewer
from fencepost.errors import InvalidInputError

blueprint = Blueprint("live", __name__)

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TOPIC: Final = re.compile(f"overview|dlq|(delivery|replay):{_UUID}")
_MARK: Final = re.compile("[0-9]{1,18}")
_MOST_TOPICS: Final = 16
_BEAT_SECONDS: Final = 15.0
_LIFE_SECONDS: Final = 13 * 60
_LIFE_SPREAD_SECONDS: Final = 4 * 60
_GLANCE_SECONDS: Final = 1.0
_UNANSWERED_MS: Final = 15_000


@blueprint.get("/live")
@requires("viewer")
def stream() -> Response:
    """Open a stream of the topics in ``t``, as many as this process has room for."""
    topics = frozenset(filter(None, request.args.get("t", "").split(",")))
    if not all(_TOPIC.fullmatch(topic) for topic in topics) or len(topics) > _MOST_TOPICS:
        raise InvalidInputError("t", "These are not topics of a page.")
    hub = runtime().hub
    viewer = hub.join(topics, mark=_mark(), session=session_key())
    if viewer is None:
        return Response("All streams are taken.\n", 503, {"Retry-After": "15"}, "text/plain")
    build: str = current_app.extensions["fencepost_assets"].build
    client: socket.socket | None = request.environ.get("gunicorn.socket")
    response = Response(_events(hub, viewer, build, client), mimetype="text/event-stream")
    # Not in the generator's own "finally": one that was never started would not run it.
    response.call_on_close(lambda: hub.leave(viewer))
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _mark() -> int | None:
    """Read where the page stands: the browser's own header, or the page's word after a new start.

    What is no mark is passed over; then the page is told to refresh everything.
    """
    text = request.headers.get("Last-Event-ID") or request.args.get("last", "")
    return int(text) if _MARK.fullmatch(text) else None


def _events(hub: Hub, viewer: Viewer, build: str, client: socket.socket | None) -> Iterator[str]:
    """Write signals as they come and a heartbeat when none does; end after a quarter of an hour.

    The page opens the next one at once: its login is checked again, the load is spread,
    and a deploy drains. Heartbeats are events, so that the page sees them. A thread is
    free again within a second after its client has left, and soon after one fell silent.
    """
    if client is not None:
        _give_up_on_silence(client)
    ends = time.monotonic() + _LIFE_SECONDS + secrets.randbelow(_LIFE_SPREAD_SECONDS)
    beat_due = time.monotonic() + 1  # by then the hub has looked at the database's clock
    yield "retry: 2000\n\n"
    while time.monotonic() < ends:
        rest = max(0.0, beat_due - time.monotonic())
        told = hub.wait(viewer, seconds=min(rest, _GLANCE_SECONDS))
        for name, data in told.signals.items():
            yield _event(name, data, told.mark)
        if told.is_over:
            break
        if time.monotonic() >= beat_due:
            now = hub.now()
            beat = {"now": now.isoformat() if now else None, "build": build}
            yield _event("hb", beat, told.mark)
            beat_due = time.monotonic() + _BEAT_SECONDS
        if client is not None and _has_left(client):
            return
    yield _event("bye", {}, None)
    if client is not None:
        _hear_no_more(client)


def _event(name: str, data: Mapping[str, Any], mark: int | None) -> str:
    """Write one event; its id is good in every process: a number of the database's own."""
    id_ = "" if mark is None else f"id: {mark}\n"
    return f"event: {name}\n{id_}data: {json.dumps(data, separators=(',', ':'))}\n\n"


def _give_up_on_silence(client: socket.socket) -> None:
    """Let a connection end when nobody acknowledges what is sent: heartbeats find out."""
    if hasattr(socket, "TCP_USER_TIMEOUT") and client.family != socket.AF_UNIX:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNANSWERED_MS)


def _hear_no_more(client: socket.socket) -> None:
    """Let the connection end with its stream: kept alive, it would keep a server from ending."""
    with suppress(OSError):  # it has ended already
        client.shutdown(socket.SHUT_RD)


def _has_left(client: socket.socket) -> bool:
    """Tell whether the other side has closed the connection, without waiting for anything."""
    try:
        return not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
