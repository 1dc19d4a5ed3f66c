"""The names of subscriptions and the keys of events, for pages that have only their ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import select

from dashboard.models import Event, Subscription, db

MOST_CHOICES: Final = 500
"""In the filter's list; with more than that the page of a subscription has the link."""


def names_of(ids: Collection[UUID]) -> Mapping[UUID, str]:
    """Look up names; one that was never there is left out."""
    if not ids:
        return {}
    query = select(Subscription.id, Subscription.name).where(Subscription.id.in_(ids))
    return {row.id: row.name for row in db.session.execute(query)}


def keys_of(events: Collection[UUID]) -> Mapping[UUID, str]:
    """Look up the idempotency keys of events; those without one are left out."""
    if not events:
        return {}
    query = select(Event.id, Event.idempotency_key).where(
        Event.id.in_(events), Event.idempotency_key.is_not(None)
    )
    return {row.id: row.idempotency_key for row in db.session.execute(query)}


def choices() -> Sequence[tuple[UUID, str]]:
    """List the subscriptions that can be chosen in a filter, by name."""
    query = (
        select(Subscription.id, Subscription.name)
        .where(Subscription.removed_at.is_(None))
        .order_by(Subscription.name, Subscription.id)
        .limit(MOST_CHOICES)
    )
    return [(row.id, row.name) for row in db.session.execute(query)]
