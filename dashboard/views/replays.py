"""``/replays``: drafts with exact counts, the question before the start, and the progress after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from flask import Blueprint, Response, g, request, url_for
from sqlalchemy import select
from werkzeug.wrappers import Response as BaseResponse

from dashboard.database import PREVIEW_TIMEOUT, connection, transaction
from dashboard.htmx import go, render, render_region
from dashboard.ids import read_id
from dashboard.models import Delivery, db
from dashboard.navigation import Navigation
from dashboard.replay_words import estimate, time_left
from dashboard.roles import requires
from dashboard.runtime import runtime
from dashboard.scopes import CONFIRM_FROM, check_typed, in_words, read_scope, read_typed
from fencepost import replay_reasons
from fencepost.cursors import Cursors
from fencepost.errors import ConflictError, InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay
from fencepost.store import replays

blueprint = Blueprint("replays", __name__)

_PARTS_SHOWN: Final = 8
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
    failures = _failures(found)
    version = (found, [(each.id, each.current_state, each.last_status) for each in failures])
    return render_region(
        "replays/show.html",
        "progress",
        version=version,
        replay=found,
        failures=failures,
        left=_time_left(found),
        scope_in_words=_scope_in_words(found),
    )


@blueprint.get("/_f/replays/running")
@requires("viewer")
def running() -> Response:
    """Refresh the bar of running replays that every page has."""
    nav = Navigation()
    version = [(row.id, row.state, row.requeued, row.skipped) for row in nav.running]
    return render_region("layout.html", "running", version=version, nav=nav, refreshed=True)


@blueprint.get("/_f/replays/<replay_id>/estimate")
@requires("operator")
def estimate_of(replay_id: str) -> Response:
    """Say how long a draft would take at the rate that is being typed."""
    parts = replays.measure_parts(connection(), read_id(replay_id, "replay"))
    try:
        told = estimate(parts.largest, replays.check_rate(_rate(request.args.get("rate", ""))))
    except InvalidInputError:
        told = ""
    return render_region("replays/draft.html", "estimate", version=told, estimate=told)


@blueprint.post("/replays/<replay_id>/start")
@requires("operator")
def start(replay_id: str) -> BaseResponse:
    """Start it: what is sent again is the draft's scope, whatever the form says."""
    id_ = read_id(replay_id, "replay")
    typed = read_typed(request.form.get("confirm", ""))
    try:
        with transaction(timeout=PREVIEW_TIMEOUT) as conn:
            _check_confirmed(replays.get_replay(conn, id_), typed)
            replays.start_replay(
                conn,
                id_,
                actor=str(g.actor),
                reason=request.form.get("reason"),
                rate=_rate(request.form.get("rate", "")),
                newest_first=request.form.get("order") == "newest_first",
                confirm=typed,
            )
    except InvalidInputError as error:
        found = replays.get_replay(connection(), id_)
        return _show(found, faults={error.field: str(error)}, status=422)
    except ConflictError:
        found = replays.get_replay(connection(), id_)
        if found.state != "DRAFT":
            raise
        return _show(found, status=409)  # it has expired, or nothing of it can be sent
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
    told = _scope_in_words(found)
    if found.state != "DRAFT":
        return render(
            "replays/show.html",
            status=status,
            replay=found,
            scope_in_words=told,
            failures=_failures(found),
            left=_time_left(found),
        )
    parts = replays.measure_parts(connection(), found.id)
    rate = request.form.get("rate", "")
    return render(
        "replays/draft.html",
        status=status,
        replay=found,
        scope_in_words=told,
        reasons=replay_reasons.in_words(found.not_eligible),
        parts=replays.list_parts(connection(), found.id, limit=_PARTS_SHOWN),
        part_count=parts.count,
        estimate=estimate(parts.largest, found.rate_per_second) if not rate else "",
        is_expired=found.expires_at <= g.now,
        faults=faults,
        given=request.form,
        confirm_from=CONFIRM_FROM,
    )


def _failures(found: Replay) -> Sequence[Delivery]:
    """Give the first deliveries whose attempts failed, as they are now."""
    if not found.first_failures:
        return []
    places: dict[UUID, int] = {id_: place for place, id_ in enumerate(found.first_failures)}
    rows = db.session.scalars(select(Delivery).where(Delivery.id.in_(places)))
    return sorted(rows, key=lambda row: places[row.id])


def _time_left(found: Replay) -> str | None:
    if found.state not in ("RUNNING", "PAUSED"):
        return None
    return time_left(found, replays.measure_parts(connection(), found.id).longest, g.now)


def _check_confirmed(found: Replay, typed: int | None) -> None:
    check_typed(found.eligible, typed)
    if found.already_delivered and not request.form.get("again"):
        raise InvalidInputError("again", "Tick this: some were delivered already.")


def _rate(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError("rate_per_second", "The rate must be a number.") from None


def _scope_in_words(found: Replay) -> str:
    return in_words(DeliveryFilter.from_json(dict(found.filter)))
