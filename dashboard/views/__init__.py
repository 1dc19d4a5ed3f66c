"""The pages: one file for each subject."""

from __future__ import annotations

from flask import Flask

from dashboard.views import (
    deliveries,
    dlq,
    events,
    health,
    live,
    overview,
    replays,
    session,
    subscriptions,
)


def register(app: Flask) -> None:
    """Give the application all of them."""
    for view in (
        deliveries,
        dlq,
        events,
        health,
        live,
        overview,
        replays,
        session,
        subscriptions,
    ):
        app.register_blueprint(view.blueprint)
