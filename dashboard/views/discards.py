"""``/discards``: what would be given up, counted exactly; the question; the progress."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, g, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard.database import PREVIEW_TIMEOUT, connection, transaction
from dashboard.htmx import go, render, render_region
from dashboard.ids import read_id
from dashboard.roles import requires
from dashboard.scopes import CONFIRM_FROM, check_typed, in_words, read_scope, read_typed
from fencepost.errors import InvalidInputError
from fencepost.filters import DeliveryFilter
from fencepost.records import Discard
from fencepost.store import discards

blueprint = Blueprint("discards", __name__)


@blueprint.post("/discards")
@requires("operator")
def draft() -> BaseResponse:
    """Fix what would be given up, count it exactly, and ask."""
    scope = read_scope(request.form)
    with transaction(timeout=PREVIEW_TIMEOUT) as conn:
        found = discards.draft_discard(conn, scope, actor=str(g.actor))
    # htmx follows as well, and asks for the fragment of the same page.
    return BaseResponse(status=303, headers={"Location": url_for(".show", discard_id=found.id)})


@blueprint.get("/discards/<discard_id>")
@requires("viewer")
def show(discard_id: str) -> Response:
    """Show a draft's question, or a discard's progress."""
    return _show(discards.get_discard(connection(), read_id(discard_id, "discard")))


@blueprint.get("/_f/discards/<discard_id>/progress")
@requires("viewer")
def progress(discard_id: str) -> Response:
    """Refresh the progress."""
    found = discards.get_discard(connection(), read_id(discard_id, "discard"))
    return render_region("discards/show.html", "progress", version=found, **_context(found))


@blueprint.post("/discards/<discard_id>/start")
@requires("operator")
def start(discard_id: str) -> BaseResponse:
    """Start it: what is given up is the draft's scope, whatever the form says."""
    id_ = read_id(discard_id, "discard")
    typed = read_typed(request.form.get("confirm", ""))
    try:
        with transaction() as conn:
            check_typed(discards.get_discard(conn, id_).eligible, typed)
            discards.start_discard(
                conn, id_, actor=str(g.actor), reason=request.form.get("reason"), confirm=typed
            )
    except InvalidInputError as error:
        found = discards.get_discard(connection(), id_)
        return _show(found, faults={error.field: str(error)}, status=422)
    return go(url_for(".show", discard_id=id_))


@blueprint.get("/discards/<discard_id>/confirm/cancel")
@requires("operator")
def confirm_cancel(discard_id: str) -> Response:
    """Ask before a discard is ended."""
    found = discards.get_discard(connection(), read_id(discard_id, "discard"))
    return render("discards/cancel.html", discard=found)


@blueprint.post("/discards/<discard_id>/cancel")
@requires("operator")
def cancel(discard_id: str) -> BaseResponse:
    """End it: what is given up already stays so."""
    id_ = read_id(discard_id, "discard")
    with transaction() as conn:
        discards.cancel_discard(conn, id_, actor=str(g.actor))
    return go(url_for(".show", discard_id=id_))


def _show(
    found: Discard, *, faults: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    return render(
        "discards/draft.html" if found.state == "DRAFT" else "discards/show.html",
        status=status,
        faults=faults,
        given=request.form,
        confirm_from=CONFIRM_FROM,
        **_context(found),
    )


def _context(found: Discard) -> Mapping[str, object]:
    scope = DeliveryFilter.from_json(dict(found.filter))
    return {"discard": found, "scope_in_words": in_words(scope)}
