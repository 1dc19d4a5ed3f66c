"""The table of subscriptions: how each does, in the order that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from uuid import UUID

from sqlalchemy import func, select

from dashboard.database import connection
from dashboard.models import Subscription, db
from dashboard.periods import Period
from fencepost.figures import MEASURES, TOTAL, Figures, Percentiles
from fencepost.store.failing import read_failing
from fencepost.store.figures import read_figures_of_each
from fencepost.store.standing import (
    Failure,
    StandingOfOne,
    read_last_failures,
    read_standing_of_each,
)

STATES: Final = ("failing", "paused")
NEWEST: Final = "newest"
"""The one order in which all of them can be paged through."""
_MOST_SORTED: Final = 1_000
"""Sorting by a figure reads that of every subscription; beyond so many, of the first by name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One subscription.

    Attributes:
        total: how long its deliveries took as a whole; None when none ended.
        failure: the last one that is known.
    """

    id: UUID
    name: str
    endpoint_masked: str
    state: str
    is_failing: bool
    figures: Figures
    total: Percentiles | None
    standing: StandingOfOne
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Table:
    """Some subscriptions.

    Attributes:
        rows: in order.
        total: how many there are of the state that was asked for.
        sort: how they are sorted.
        minutes: of the period, for rates.
    """

    rows: Sequence[Row]
    total: int
    sort: str
    minutes: float

    @property
    def is_cut(self) -> bool:
        """Whether there are more."""
        return len(self.rows) < self.total


def read_table(
    period: Period, *, sort: str = "failing", state: str | None = None, limit: int
) -> Table:
    """Read the table.

    Args:
        period: of the figures; with its ``sub`` that one alone.
        sort: a name in ``SORTS``.
        state: one of ``STATES``; None: all.
        limit: how many rows.
    """
    failing = read_failing(connection())
    wanted, total = _find(period.sub, state, failing)
    ids = SORTS[sort](wanted, failing, period)[:limit]
    return Table(_read_rows(ids, set(failing), period), total, sort, period.minutes)


def read_rows(ids: Sequence[UUID], period: Period) -> Table:
    """Read the rows of these subscriptions, in this order."""
    rows = _read_rows(ids, set(read_failing(connection())), period)
    return Table(rows, len(ids), NEWEST, period.minutes)


def _find(
    sub: UUID | None, state: str | None, failing: Sequence[UUID]
) -> tuple[Sequence[UUID], int]:
    query = select(Subscription.id).where(Subscription.removed_at.is_(None))
    if sub is not None:
        query = query.where(Subscription.id == sub)
    if state == "paused":
        query = query.where(Subscription.state == "paused")
    elif state == "failing":
        query = query.where(Subscription.id.in_(failing))
    total = db.session.scalar(select(func.count()).select_from(query.subquery())) or 0
    named = query.order_by(Subscription.name, Subscription.id).limit(_MOST_SORTED)
    return db.session.scalars(named).all(), total


def _by_failing(ids: Sequence[UUID], failing: Sequence[UUID], _: Period) -> Sequence[UUID]:
    known = set(ids)
    first = [each for each in failing if each in known]
    return [*first, *(each for each in ids if each not in set(first))]


def _by_name(ids: Sequence[UUID], _: Sequence[UUID], __: Period) -> Sequence[UUID]:
    return ids


def _by_retry_rate(ids: Sequence[UUID], _: Sequence[UUID], period: Period) -> Sequence[UUID]:
    found = read_figures_of_each(connection(), period.window, ids, of=())
    return _highest_first(ids, {each: figures.retry_rate for each, figures in found.items()})


def _by_p95(ids: Sequence[UUID], _: Sequence[UUID], period: Period) -> Sequence[UUID]:
    found = read_figures_of_each(connection(), period.window, ids, of=MEASURES[TOTAL])
    totals = {each: total_of(figures) for each, figures in found.items()}
    return _highest_first(
        ids, {each: total.p95_ms if total else None for each, total in totals.items()}
    )


def _by_dead(ids: Sequence[UUID], _: Sequence[UUID], __: Period) -> Sequence[UUID]:
    found = read_standing_of_each(connection(), ids)
    return _highest_first(ids, {each: one.dead for each, one in found.items()})


def _highest_first(ids: Sequence[UUID], values: Mapping[UUID, float | None]) -> Sequence[UUID]:
    """Sort; whoever has no value comes last, and equals stay in the order of their names."""
    return sorted(ids, key=lambda each: -(-1.0 if (value := values[each]) is None else value))


Sort = Callable[[Sequence[UUID], Sequence[UUID], Period], Sequence[UUID]]
SORTS: Final[Mapping[str, Sort]] = MappingProxyType(
    {
        "failing": _by_failing,
        "name": _by_name,
        "retry_rate": _by_retry_rate,
        "p95": _by_p95,
        "dlq": _by_dead,
    }
)
"""``failing`` is the default: those first, then by name."""


def _read_rows(ids: Sequence[UUID], failing: set[UUID], period: Period) -> Sequence[Row]:
    conn = connection()
    figures = read_figures_of_each(conn, period.window, ids, of=MEASURES[TOTAL])
    standing = read_standing_of_each(conn, ids)
    failures = read_last_failures(conn, ids)
    query = select(
        Subscription.id, Subscription.name, Subscription.endpoint_masked, Subscription.state
    ).where(Subscription.id.in_(ids))
    about = {row.id: row for row in db.session.execute(query)}
    return [
        Row(
            *about[each],
            is_failing=each in failing,
            figures=figures[each],
            total=total_of(figures[each]),
            standing=standing[each],
            failure=failures.get(each),
        )
        for each in ids
        if each in about
    ]


def total_of(figures: Figures) -> Percentiles | None:
    """Give how long deliveries took as a whole."""
    return next((each for each in figures.percentiles() if each.kind == TOTAL), None)
