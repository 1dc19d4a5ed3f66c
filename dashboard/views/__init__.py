"""The pages: one file for each subject."""

from __future__ import annotations

from flask import Flask

from dashboard.views import (
    audit,
    deliveries,
    delivery,
    delivery_acts,
    discards,
    dlq,
    events,
    health,
    live,
    overview,
    replays,
    search,
    session,
    settings,
    subscription_acts,
    subscriptions,
    workers,
)


def register(app: Flask) -> None:
    """Give the application all of them; what one subject spreads over files, it has once."""
    views = (
        audit,
        deliveries,
        delivery,
        delivery_acts,
        discards,
        dlq,
        events,
        health,
        live,
        overview,
        replays,
        search,
        session,
        settings,
        subscription_acts,
        subscriptions,
        workers,
    )
    for blueprint in dict.fromkeys(view.blueprint for view in views):
        app.register_blueprint(blueprint)
