"""What the frame of every page shows: who is logged in, how full the DLQ is, what is running."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from flask import Flask, g, request
from sqlalchemy import select

from dashboard import preferences, presenters
from dashboard.database import connection
from dashboard.listing import dead_letters
from dashboard.models import Replay, db
from dashboard.roles import Actor, Role
from dashboard.runtime import runtime
from fencepost import __version__
from fencepost.filters import DeliveryFilter
from fencepost.store.deliveries import count_capped

_MOST_DEAD: Final = 10_000
_MOST_RUNNING: Final = 3


class Navigation:
    """Read once, and only by templates that show it: a fragment asks for none of it."""

    @cached_property
    def dead(self) -> int:
        """How many dead letters there are, up to a limit."""
        return count_capped(connection(), dead_letters(DeliveryFilter()), _MOST_DEAD)

    @cached_property
    def running(self) -> Sequence[Replay]:
        """The bulk replays that are running, or have paused themselves."""
        is_stuck = (Replay.state == "PAUSED") & Replay.paused_reason.is_not(None)
        query = select(Replay).where((Replay.state == "RUNNING") | is_stuck).order_by(Replay.id)
        return db.session.scalars(query.limit(_MOST_RUNNING)).all()


def init_app(app: Flask) -> None:
    """Give templates what they all need."""
    app.jinja_env.globals["present"] = presenters
    app.jinja_env.globals["version"] = __version__
    # As a global, so that a block rendered alone has the macros too.
    app.jinja_env.globals["ui"] = app.jinja_env.get_template("_ui.html").module
    app.context_processor(_context)


def _context() -> dict[str, Any]:
    actor: Actor | None = g.get("actor")
    return {
        "actor": actor,
        "may": lambda role: actor is not None and actor.role.may(Role(role)),
        "environment": runtime().settings.environment,
        "nav": Navigation(),
        "now": g.get("now"),
        "section": request.endpoint,
        "prefs": preferences.chosen(),
    }
