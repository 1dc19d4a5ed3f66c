"""Bulk replays: a draft with exact counts, then start, pause, resume, cancel."""

from __future__ import annotations

from typing import Any, Final, Protocol
from uuid import UUID

from flask import jsonify
from flask.typing import ResponseReturnValue
from psycopg import Connection

from dashboard.api.acting import acting
from dashboard.api.deliveries import REASON
from dashboard.api.fields import Field, accepts
from dashboard.api.pages import as_page, read_positions
from dashboard.api.parameters import WINDOW, takes
from dashboard.api.routes import blueprint
from dashboard.database import PREVIEW_TIMEOUT, transaction
from dashboard.ids import read_id
from dashboard.roles import requires
from fencepost import objects
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store import replays

FILTER: Final = Field(
    "filter",
    "object",
    "the parameters of the list of deliveries, a string or a list each; without state: the DLQ",
    required=True,
)
RATE: Final = Field(
    "rate_per_second", "number", "to each subscription; none: as fast as it goes", nullable=True
)
ORDER: Final = Field("order", "string", "oldest_first (the default) or newest_first", nullable=True)
CONFIRM: Final = Field("confirm", "integer", "must equal eligible, where given", nullable=True)


@blueprint.get("/replays")
@requires("viewer")
@takes(*WINDOW)
def list_replays() -> ResponseReturnValue:
    """List replays, the newest first, without drafts."""
    window = read_positions("replays")
    with transaction() as conn:
        page = replays.list_replays(
            conn, limit=window.limit, after=window.after, before=window.before
        )
    return as_page(page, objects.replay_json, scope="replays")


@blueprint.post("/replays")
@requires("operator")
@accepts(FILTER, REASON, RATE, ORDER)
def draft_replay(body: dict[str, Any]) -> ResponseReturnValue:
    """Fix what would be sent again, and count it exactly; no delivery is touched."""
    scope = DeliveryFilter.from_json(body["filter"])
    with acting("replay.draft", asked=body, timeout=PREVIEW_TIMEOUT) as (conn, actor):
        draft = replays.draft_replay(
            conn,
            scope,
            reason=body.get("reason"),
            rate=body.get("rate_per_second"),
            newest_first=bool(_is_newest_first(body)),
            actor=actor,
        )
        parts = replays.list_parts(conn, draft.id)
    return (
        jsonify(objects.replay_json(draft, parts)),
        201,
        {"Location": f"/api/v1/replays/{draft.id}"},
    )


@blueprint.get("/replays/<replay_id>")
@requires("viewer")
def read_replay(replay_id: str) -> ResponseReturnValue:
    """Give a replay, what came of it so far, and the subscriptions with the most of it."""
    wanted = read_id(replay_id, "replay")
    with transaction() as conn:
        found = replays.get_replay(conn, wanted)
        parts = replays.list_parts(conn, wanted)
    return jsonify(objects.replay_json(found, parts))


@blueprint.post("/replays/<replay_id>/start")
@requires("operator")
@accepts(REASON, RATE, ORDER, CONFIRM)
def start_replay(replay_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Start a draft; workers do the rest, and starting it again changes nothing."""
    wanted = read_id(replay_id, "replay")
    with acting("replay.start", wanted, asked=body) as (conn, actor):
        found = replays.start_replay(
            conn,
            wanted,
            actor=actor,
            reason=body.get("reason"),
            rate=body.get("rate_per_second"),
            newest_first=_is_newest_first(body),
            confirm=body.get("confirm"),
        )
    return jsonify(objects.replay_json(found))


@blueprint.post("/replays/<replay_id>/pause")
@requires("operator")
@accepts()
def pause_replay(replay_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Stop requeueing; what is requeued already is sent."""
    return _move("pause", replays.pause_replay, replay_id, body)


@blueprint.post("/replays/<replay_id>/resume")
@requires("operator")
@accepts()
def resume_replay(replay_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """Go on with a paused replay."""
    return _move("resume", replays.resume_replay, replay_id, body)


@blueprint.post("/replays/<replay_id>/cancel")
@requires("operator")
@accepts()
def cancel_replay(replay_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    """End a replay, or drop a draft."""
    return _move("cancel", replays.cancel_replay, replay_id, body)


def _is_newest_first(body: dict[str, Any]) -> bool | None:
    order = body.get("order")
    if order not in (None, "oldest_first", "newest_first"):
        raise InvalidInputError("order", "order must be oldest_first or newest_first.")
    return None if order is None else order == "newest_first"


class _Move(Protocol):
    def __call__(self, conn: Connection[Any], replay_id: UUID, *, actor: str) -> Replay: ...


def _move(name: str, move: _Move, replay_id: str, body: dict[str, Any]) -> ResponseReturnValue:
    wanted = read_id(replay_id, "replay")
    with acting(f"replay.{name}", wanted, asked=body) as (conn, actor):
        found = move(conn, wanted, actor=actor)
    return jsonify(objects.replay_json(found))
