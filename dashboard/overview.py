"""What the tiles of the overview show, and the sentence above them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select

from dashboard import charts
from dashboard.database import connection
from dashboard.models import Delivery, Subscription, db
from dashboard.periods import Period
from fencepost.figures import MEASURES, Figures, Percentiles, Window
from fencepost.records import Worker
from fencepost.segments import SegmentKind
from fencepost.store.failing import read_failing
from fencepost.store.figures import read_figures, read_series
from fencepost.store.standing import Fenced, Standing, count_fenced, read_standing
from fencepost.store.workers import health_of, list_workers

_RECENT: Final = timedelta(minutes=5)
"""Whoever delivered something so lately is delivering."""
_LONG_WAIT: Final = timedelta(minutes=1)
_FORGOTTEN_AFTER: Final = timedelta(hours=1)
"""A worker that fell silent before that is not waited for any more."""


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers, as a tile and a table show them.

    Attributes:
        rows: who is there or should be, each with its health; stopped ones are not among them.
        last_beat: when one reported last; None when none ever did.
    """

    rows: Sequence[tuple[Worker, str]]
    last_beat: datetime | None

    @property
    def working(self) -> int:
        """Count those that report, be it late."""
        return sum(health in {"alive", "late"} for _, health in self.rows)

    @property
    def alive(self) -> int:
        """Count those that report in time."""
        return sum(health == "alive" for _, health in self.rows)

    @property
    def overdue(self) -> Sequence[tuple[Worker, str]]:
        """Give those that do not."""
        return [row for row in self.rows if row[1] != "alive"]


@dataclass(frozen=True, slots=True)
class Census:
    """How many subscriptions there are, and how they do."""

    total: int
    paused: int
    failing: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What is said in the tiles.

    Attributes:
        figures: of the period.
        before: of the period of the same length before it.
        recent: delivered in the last minutes.
        trend: of what was delivered, as the path of a line.
        in_flight: how long requests took in the period; None when none ended.
    """

    period: Period
    now: datetime
    standing: Standing
    figures: Figures
    before: Figures
    recent: int
    trend: str
    in_flight: Percentiles | None
    fenced: Fenced
    crew: Crew
    census: Census

    @property
    def per_minute(self) -> float:
        """Give what was delivered, by the minute."""
        return self.figures.delivered / self.period.minutes

    @property
    def first_try_change(self) -> float | None:
        """Give the change of the share of first tries that delivered, in percentage points."""
        now, before = self.figures.first_try_rate, self.before.first_try_rate
        return None if now is None or before is None else 100 * (now - before)

    @property
    def verdict(self) -> str:
        """Say in a word or two whether deliveries are made."""
        if not self.crew.working:
            return "Not delivering."
        if self.recent or self.standing.in_flight:
            return "Delivering."
        oldest = self.standing.oldest_due_at
        if oldest is not None and self.now - oldest > _LONG_WAIT:
            return "Deliveries wait, and none was made in the last 5 minutes."
        return "Nothing to deliver right now."

    @property
    def version(self) -> object:
        """Give what tells one state of the tiles from another; a beat alone is no news."""
        return (
            self.period.params(), self.standing, self.figures, self.before, self.recent, self.trend,
            self.fenced, self.census, self.crew.working,
            [(worker.worker_id, health) for worker, health in self.crew.rows], self.verdict,
        )  # fmt: skip


def read_overview(period: Period, now: datetime) -> Overview:
    """Read it all; ``now`` is the database's clock."""
    conn, sub = connection(), period.sub
    figures = read_figures(conn, period.window, sub, of=MEASURES[SegmentKind.IN_FLIGHT])
    recent = read_figures(conn, Window(now - _RECENT, now), sub, of=())
    series = read_series(conn, period.drawn, period.step, sub, of=())
    return Overview(
        period=period,
        now=now,
        standing=read_standing(conn, sub),
        figures=figures,
        before=read_figures(conn, period.before, sub, of=()),
        recent=recent.delivered,
        # Not of the step that is still growing: it would always fall.
        trend=charts.spark([each.delivered for at, each in series if at + period.step <= now]),
        in_flight=next(iter(figures.percentiles()), None),
        fenced=count_fenced(conn, sub),
        crew=read_crew(now),
        census=read_census(),
    )


def is_empty() -> bool:
    """Say whether nothing has been published to a subscription yet."""
    return db.session.scalar(select(Delivery.id).limit(1)) is None


def read_crew(now: datetime) -> Crew:
    """Read who is at work."""
    rows = [(row, health_of(row, now)) for row in list_workers(connection())]
    beats = [row.beat_at for row, _ in rows if row.beat_at is not None]
    return Crew(list(_expected(rows, now)), max(beats, default=None))


def read_census() -> Census:
    """Count the subscriptions."""
    query = select(
        func.count(), func.count().filter(Subscription.state == "paused")
    ).where(Subscription.removed_at.is_(None))  # fmt: skip
    total, paused = db.session.execute(query).one()
    return Census(total, paused, len(read_failing(connection())))


def _expected(rows: Sequence[tuple[Worker, str]], now: datetime) -> Iterator[tuple[Worker, str]]:
    for row, health in rows:
        is_gone = row.beat_at is None or now - row.beat_at > _FORGOTTEN_AFTER
        if health != "stopped" and (row.leases or not is_gone):
            yield row, health
