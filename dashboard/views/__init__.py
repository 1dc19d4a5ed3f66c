"""The pages: one file for each subject."""

from __future__ import annotations

from flask import Flask

from dashboard.views import (
    audit,
    deliveries,
    dlq,
    events,
    health,
    live,
    overview,
    replays,
    search,
    session,
    settings,
    subscriptions,
    workers,
)


def register(app: Flask) -> None:
    """Give the application all of them."""
    for view in (
        audit,
        deliveries,
        dlq,
        events,
        health,
        live,
        overview,
        replays,
        search,
        session,
        settings,
        subscriptions,
        workers,
    ):
        app.register_blueprint(view.blueprint)
