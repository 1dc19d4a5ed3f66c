"""What the page of the dead letters shows besides a list: totals, groups, what cannot be sent."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from sqlalchemy import select

from dashboard.listing import COUNT_CAP, dead_letters
from dashboard.models import Event, Subscription, db
from fencepost.dead_groups import DeadGroup, DeadGroups
from fencepost.figures import Window
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery
from fencepost.store.conditions import read_clock
from fencepost.store.dead_groups import count_dead, read_last_entry
from fencepost.store.deliveries import count_capped
from fencepost.store.figures import read_figures

HOUR: Final = timedelta(hours=1)
WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Totals:
    """How many there are, and how many of them have come lately.

    Attributes:
        count: exact up to ``COUNT_CAP``; more than that is as of then.
        as_of: when they were counted; None: just now.
        latest: of those that entered within the last hour.
    """

    count: int
    as_of: datetime | None
    latest: int

    @property
    def in_words(self) -> str:
        """Say how many, and how exact that is."""
        if self.as_of is not None:
            return f"about {self.count:,}"
        return f"more than {COUNT_CAP:,}" if self.count > COUNT_CAP else f"{self.count:,}"


def read_totals(conn: Connection[Any]) -> Totals:
    """Count them all, whatever the filter."""
    count, as_of = count_dead(conn)
    recent = dead_letters(DeliveryFilter(since=HOUR))
    return Totals(count, as_of, count_capped(conn, recent, COUNT_CAP) if count else 0)


@dataclass(frozen=True, slots=True)
class Past:
    """What is left to tell of an empty DLQ.

    Attributes:
        last_at: when a delivery entered it last; None: never, as far as is known.
        replayed: in the last seven days.
    """

    last_at: datetime | None
    replayed: int


def read_past(conn: Connection[Any]) -> Past:
    """Read from the figures what once was there."""
    now = read_clock(conn)
    week = read_figures(conn, Window(now - WEEK, now), of=())
    return Past(read_last_entry(conn), week.replayed)


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group as a row of the page.

    Attributes:
        mark: of its key: short, and fit for the id of an element.
        params: the filter that finds its rows; None where no filter does.
    """

    group: DeadGroup
    mark: str
    params: Mapping[str, Sequence[str]] | None


def shown_groups(
    found: DeadGroups, chosen: DeliveryFilter, *, before: Sequence[str] = ()
) -> list[ShownGroup]:
    """Put the groups in order: the largest first, but none that is shown already moves.

    Args:
        found: the groups.
        chosen: the filter of the page.
        before: the marks that are on the page, from top to bottom.
    """
    rows = [_shown(group, chosen) for group in found.rows]
    places = {mark: place for place, mark in enumerate(before)}
    return sorted(rows, key=lambda row: places.get(row.mark, len(places)))


def _shown(group: DeadGroup, chosen: DeliveryFilter) -> ShownGroup:
    key = f"{group.subscription_id} {group.error} {group.status}"
    scope = group.scope(chosen)
    return ShownGroup(
        group,
        hashlib.sha256(key.encode()).hexdigest()[:8],
        None if scope is None else scope.to_params(),
    )


def obstacles(rows: Collection[Delivery]) -> Mapping[UUID, str]:
    """Say of each delivery that cannot be sent again why; the others are left out."""
    removed = _ids(Subscription, {row.subscription_id for row in rows}, Subscription.removed_at)
    erased = _ids(Event, {row.event_id for row in rows}, Event.erased_at)
    found = {row.id: "payload erased" for row in rows if row.event_id in erased}
    gone = {row.id: "subscription removed" for row in rows if row.subscription_id in removed}
    return found | gone


def _ids(model: Any, wanted: Collection[UUID], moment: Any) -> set[UUID]:  # noqa: ANN401 - a column
    if not wanted:
        return set()
    query = select(model.id).where(model.id.in_(wanted), moment.is_not(None))
    return set(db.session.scalars(query))
