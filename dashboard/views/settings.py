"""``/settings``: how this browser shows the pages. Nothing of it is in the database."""

from __future__ import annotations

from flask import Blueprint, Response, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from dashboard import preferences
from dashboard.htmx import go, render
from dashboard.roles import requires

blueprint = Blueprint("settings", __name__)


@blueprint.get("/settings")
@requires("viewer")
def index() -> Response:
    """Show what can be chosen."""
    return render("settings/index.html", preferences=preferences.PREFERENCES)


@blueprint.post("/settings")
@requires("viewer")
def save() -> BaseResponse:
    """Keep what was chosen; what stands for no choice leaves no cookie."""
    answer = go(url_for(".index", saved=1))
    for name, value in preferences.read_form().items():
        if value == preferences.PREFERENCES[name].default:
            answer.delete_cookie(preferences.cookie(name), samesite="Lax")
            continue
        answer.set_cookie(
            preferences.cookie(name),
            value,
            max_age=preferences.SECONDS,
            secure=request.is_secure,
            samesite="Lax",
        )
    return answer
