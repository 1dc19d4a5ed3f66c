"""The HTTP API, version 1: what a page can do, a program can do here."""

from dashboard.api import (  # noqa: F401  # importing them adds their routes
    audit,
    deliveries,
    discards,
    events,
    exchanges,
    ingest,
    replays,
    stats,
    subscriptions,
    workers,
)
from dashboard.api.routes import blueprint

__all__ = ["blueprint"]
