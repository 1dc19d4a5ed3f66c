"""The numbers of the overview, each counted so that the list behind it counts the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import func, literal, select, union_all

from dashboard.database import connection
from dashboard.models import Delivery, Subscription, Worker, db
from dashboard.tallies import Tally, tally
from fencepost.states import WAITING, State

SILENT_AFTER: Final = timedelta(seconds=30)
"""A worker that has said nothing for so long counts as gone."""

_MOST_SUBSCRIPTIONS: Final = 50


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription, and what of it is not delivered."""

    id: UUID
    name: str
    endpoint_masked: str
    state: str
    waiting: int
    dead: int


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the overview shows.

    Attributes:
        counts: deliveries in each state; discarded ones are in none.
        workers: how many report themselves.
        last_beat: when one did last; None when there never was one.
        subscriptions: with the most dead letters first.
        paused: how many subscriptions are paused.
    """

    counts: Mapping[State, Tally]
    workers: int
    last_beat: datetime | None
    subscriptions: Sequence[SubscriptionRow]
    paused: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been published to a subscription yet."""
        return not any(each.number for each in self.counts.values())


def read_overview(now: datetime) -> Overview:
    """Read it all; ``now`` is the database's clock."""
    beats = db.session.execute(
        select(
            func.count().filter(Worker.beat_at > now - SILENT_AFTER, Worker.state != "stopped"),
            func.max(Worker.beat_at),
        )
    ).one()
    rows = _subscriptions()
    return Overview(
        counts=tally(connection()),
        workers=beats[0],
        last_beat=beats[1],
        subscriptions=rows,
        paused=_count_paused(),
    )


def _count_paused() -> int:
    query = select(func.count()).where(
        Subscription.state == "paused", Subscription.removed_at.is_(None)
    )
    return db.session.scalar(query) or 0


def _subscriptions() -> Sequence[SubscriptionRow]:
    """Count what waits and what is dead, each on its own partial index, and add the names."""
    zero = literal(0)
    waits_of = (
        select(Delivery.subscription_id, func.count().label("waiting"), zero.label("dead"))
        .where(Delivery.current_state.in_(sorted(WAITING)))
        .group_by(Delivery.subscription_id)
    )
    dead_of = (
        select(Delivery.subscription_id, zero, func.count())
        .where(Delivery.current_state == State.DLQ, Delivery.discarded_at.is_(None))
        .group_by(Delivery.subscription_id)
    )
    both = union_all(waits_of, dead_of).subquery()
    waits, dies = (
        func.coalesce(func.sum(both.c.waiting), 0),
        func.coalesce(func.sum(both.c.dead), 0),
    )
    query = (
        select(
            Subscription.id,
            Subscription.name,
            Subscription.endpoint_masked,
            Subscription.state,
            waits,
            dies,
        )
        .outerjoin(both, both.c.subscription_id == Subscription.id)
        .where(Subscription.removed_at.is_(None))
        .group_by(Subscription.id)
        .order_by(dies.desc(), waits.desc(), Subscription.name)
        .limit(_MOST_SUBSCRIPTIONS)
    )
    return [
        SubscriptionRow(id_, name, endpoint, state, int(waiting), int(dead))
        for id_, name, endpoint, state, waiting, dead in db.session.execute(query)
    ]
