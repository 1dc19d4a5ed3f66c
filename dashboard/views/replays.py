"""``/replays``: drafts with exact counts, the question before the start, and the progress after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flask import Blueprint, Response, g, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.database import PREVIEW_TIMEOUT, connection, transaction
from dashboard.htmx import go, render, render_region
from dashboard.ids import read_id
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.scopes import CONFIRM_FROM, check_typed, in_words, read_scope, read_typed
from fencepost.cursors import Cursors
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store import replays

blueprint = Blueprint("replays", __name__)

_SCOPE: Final = "replays"
_MOVES: Final = {
    "pause": replays.pause_replay,
    "resume": replays.resume_replay,
    "cancel": replays.cancel_replay,
}


@blueprint.get("/replays")
@requires("viewer")
def index() -> Response:
    """List replays, newest first."""
    cursors = Cursors(runtime().secret)
    page = replays.list_replays(
        connection(),
        after=cursors.read(request.args.get("after") or None, scope=_SCOPE, field="after"),
        before=cursors.read(request.args.get("before") or None, scope=_SCOPE, field="before"),
    )
    return render(
        "replays/list.html",
        rows=page.rows,
        words={row.id: _scope_in_words(row) for row in page.rows},
        next=cursors.write(page.next, scope=_SCOPE),
        prev=cursors.write(page.prev, scope=_SCOPE),
    )


@blueprint.post("/replays")
@requires("operator")
def draft() -> BaseResponse:
    """Fix what would be sent again, count it exactly, and ask."""
    scope = read_scope(request.form)
    with transaction(timeout=PREVIEW_TIMEOUT) as conn:
        found = replays.draft_replay(conn, scope, actor=str(g.actor))
    # htmx follows as well, and asks for the fragment of the same page.
    return BaseResponse(status=303, headers={"Location": url_for(".show", replay_id=found.id)})


@blueprint.get("/replays/<replay_id>")
@requires("viewer")
def show(replay_id: str) -> Response:
    """Show a draft's question, or a replay's progress."""
    found = replays.get_replay(connection(), read_id(replay_id, "replay"))
    return _show(found)


@blueprint.get("/_f/replays/<replay_id>/progress")
@requires("viewer")
def progress(replay_id: str) -> Response:
    """Refresh the progress."""
    found = replays.get_replay(connection(), read_id(replay_id, "replay"))
    return render_region(
        "replays/show.html",
        "progress",
        version=found,
        replay=found,
        scope_in_words=_scope_in_words(found),
    )


@blueprint.post("/replays/<replay_id>/start")
@requires("operator")
def start(replay_id: str) -> BaseResponse:
    """Start it: what is sent again is the draft's scope, whatever the form says."""
    id_ = read_id(replay_id, "replay")
    typed = read_typed(request.form.get("confirm", ""))
    try:
        with transaction(timeout=PREVIEW_TIMEOUT) as conn:
            check_typed(replays.get_replay(conn, id_).eligible, typed)
            replays.start_replay(
                conn,
                id_,
                actor=str(g.actor),
                reason=request.form.get("reason"),
                rate=_rate(request.form.get("rate", "")),
                confirm=typed,
            )
    except InvalidInputError as error:
        found = replays.get_replay(connection(), id_)
        return _show(found, faults={error.field: str(error)}, status=422)
    return go(url_for(".show", replay_id=id_))


@blueprint.get("/replays/<replay_id>/confirm/cancel")
@requires("operator")
def confirm_cancel(replay_id: str) -> Response:
    """Ask before a replay is ended."""
    found = replays.get_replay(connection(), read_id(replay_id, "replay"))
    return render("replays/cancel.html", replay=found)


@blueprint.post("/replays/<replay_id>/<any(pause, resume, cancel):name>")
@requires("operator")
def move(replay_id: str, name: str) -> BaseResponse:
    """Pause it, go on with it, or end it."""
    id_ = read_id(replay_id, "replay")
    with transaction() as conn:
        found = _MOVES[name](conn, id_, actor=str(g.actor))
    # A draft that was dropped has no page worth going to.
    return go(url_for("dlq.index") if found.started_at is None else url_for(".show", replay_id=id_))


def _show(found: Replay, *, faults: Mapping[str, str] | None = None, status: int = 200) -> Response:
    return render(
        "replays/draft.html" if found.state == "DRAFT" else "replays/show.html",
        status=status,
        replay=found,
        scope_in_words=_scope_in_words(found),
        faults=faults,
        given=request.form,
        confirm_from=CONFIRM_FROM,
    )


def _rate(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError("rate_per_second", "The rate must be a number.") from None


def _scope_in_words(found: Replay) -> str:
    return in_words(DeliveryFilter.from_json(dict(found.filter)))
