"""The numbers of the overview, each counted so that the list behind it counts the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, ScalarSelect, func, select

from dashboard.database import connection
from dashboard.models import Delivery, Failing, Subscription, Worker, db, is_in
from dashboard.tallies import Tally, tally
from fencepost.states import WAITING, State
from fencepost.store.workers import SILENT_AFTER

_MOST_SUBSCRIPTIONS: Final = 50
_CAP_OF_ROW: Final = 1_000


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription, and what of it is not delivered."""

    id: UUID
    name: str
    endpoint_masked: str
    state: str
    waiting: Tally
    dead: Tally


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the overview shows.

    Attributes:
        counts: deliveries in each state; discarded ones are in none.
        workers: how many report themselves.
        last_beat: when one did last; None when there never was one.
        subscriptions: the failing ones first.
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
    """Give the first subscriptions, failing ones before the others, and what is left of each."""
    query = (
        select(
            Subscription.id,
            Subscription.name,
            Subscription.endpoint_masked,
            Subscription.state,
            _count_up_to(is_in(*WAITING)).label("waiting"),
            _count_up_to(is_in(State.DLQ) & Delivery.discarded_at.is_(None)).label("dead"),
        )
        .outerjoin(Failing, Failing.subscription_id == Subscription.id)
        .where(Subscription.removed_at.is_(None))
        .order_by(Failing.since, Subscription.name, Subscription.id)
        .limit(_MOST_SUBSCRIPTIONS)
    )
    return [
        SubscriptionRow(id_, name, endpoint, state, _tally(waiting), _tally(dead))
        for id_, name, endpoint, state, waiting, dead in db.session.execute(query)
    ]


def _count_up_to(condition: ColumnElement[bool]) -> ScalarSelect[int]:
    """Count a subscription's deliveries on one partial index, and no further than the limit."""
    few = (
        select(Delivery.id)
        .where(Delivery.subscription_id == Subscription.id, condition)
        .limit(_CAP_OF_ROW + 1)
        .correlate(Subscription)
        .lateral()
    )
    return select(func.count()).select_from(few).correlate(Subscription).scalar_subquery()


def _tally(number: int) -> Tally:
    return Tally(min(number, _CAP_OF_ROW), is_more=number > _CAP_OF_ROW)
