"""What happened in a window of time, and how long it took: the figures that rollups add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from fencepost.cells import BY_WAIT, REASONS, WIDTH, Measure
from fencepost.histograms import Histogram
from fencepost.model import ErrorClass
from fencepost.segments import SegmentKind, WaitedFor
from fencepost.states import State

TOTAL: Final = "total"
"""Beside the kinds of segments: from being received to the end."""

MEASURES: Final[Mapping[str, tuple[Measure, ...]]] = {
    SegmentKind.INGEST: (Measure.INGEST,),
    SegmentKind.WAITING: (
        Measure.WAITING,
        Measure.WAITING_WORKER,
        Measure.WAITING_SLOT,
        Measure.WAITING_RATE,
        Measure.WAITING_ORDER,
    ),
    SegmentKind.SLEEPING: (Measure.SLEEPING,),
    SegmentKind.HELD: (Measure.HELD,),
    SegmentKind.PREPARING: (Measure.PREPARING,),
    SegmentKind.IN_FLIGHT: (Measure.IN_FLIGHT,),
    SegmentKind.PARKED: (Measure.PARKED,),
    TOTAL: (Measure.TOTAL,),
}
"""What each segment is made of, in the order in which they are shown."""


_DEATHS_WITHOUT_FAILURE: Final = (ErrorClass.CRASH_LOOP, ErrorClass.LEASE_EXPIRED)


@dataclass(frozen=True, slots=True)
class Window:
    """From ``since`` on, up to and without ``until``; aware."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How long segments of one kind took, in milliseconds, within ``histograms.RELATIVE_ERROR``."""

    kind: str
    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The sum of some rollups.

    Every figure belongs to the moment at which what it counts ended or happened, not to the one
    at which its delivery was made.

    Attributes:
        received: deliveries made.
        attempts: requests that left.
        ended: attempts that ended: answered, failed, or their lease expired.
        retries: of those, the ones that were not the first of their delivery.
        delivered: answers that ended a delivery well.
        first_delivered: of those, to the first attempt.
        failed: attempts, and claims, that failed.
        lease_expiries: leases that a reaper took back.
        dead: entries into the DLQ, other than by an operator's discard.
        replayed: what operators sent again.
        discarded: what operators gave up.
        fenced: late writes that fencing refused.
        cells: durations and reasons; see ``fencepost.cells``.
    """

    received: int = 0
    attempts: int = 0
    ended: int = 0
    retries: int = 0
    delivered: int = 0
    first_delivered: int = 0
    failed: int = 0
    lease_expiries: int = 0
    dead: int = 0
    replayed: int = 0
    discarded: int = 0
    fenced: int = 0
    cells: Mapping[int, int] = field(default_factory=dict, repr=False)

    @property
    def set_back(self) -> int:
        """Count the failures after which a delivery is tried again: those that killed none.

        Who dies without a failure has a lease that ran out, and its own reason.
        """
        reasons = self.dead_by_reason
        without = sum(reasons.get(each, 0) for each in _DEATHS_WITHOUT_FAILURE)
        return max(0, self.failed - self.dead + without)

    @property
    def retry_rate(self) -> float | None:
        """Give the share of the ended attempts that were not their delivery's first."""
        return _share(self.retries, self.ended)

    @property
    def first_try_rate(self) -> float | None:
        """Give the share of the ended first attempts that delivered."""
        return _share(self.first_delivered, self.ended - self.retries)

    @property
    def tries_per_delivery(self) -> float | None:
        """Give the ended attempts for each delivery that was delivered or died."""
        return _share(self.ended, self.delivered + self.dead)

    @property
    def dead_by_reason(self) -> Mapping[str, int]:
        """Give the entries into the DLQ by the failure that led there; most first."""
        names = {number: str(reason) for reason, number in REASONS.items()}
        found = {
            names.get(cell, "other"): count for cell, count in self.cells.items() if cell < WIDTH
        }
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def histogram(self, *measures: Measure) -> Histogram:
        """Give the durations of these measures together."""
        merged = Histogram()
        for measure in measures:
            first = measure * WIDTH
            merged += Histogram(
                {
                    cell - first: count
                    for cell, count in self.cells.items()
                    if first <= cell < first + WIDTH
                }
            )
        return merged

    def percentiles(self) -> tuple[Percentiles, ...]:
        """Give those of every segment that ended at all, and of ``total``, as ``MEASURES`` has it.

        Each visit counts on its own: a delivery that was attempted three times was in flight
        three times.
        """
        found = ((kind, self.histogram(*parts)) for kind, parts in MEASURES.items())
        return tuple(_percentiles(kind, histogram) for kind, histogram in found if histogram.total)

    def waits(self) -> tuple[Percentiles, ...]:
        """Divide the waits, held ones included, by what they waited for."""
        found = ((reason, self.histogram(BY_WAIT[reason])) for reason in WaitedFor)
        return tuple(_percentiles(kind, histogram) for kind, histogram in found if histogram.total)


def _percentiles(kind: str, histogram: Histogram) -> Percentiles:
    p50, p95, p99, longest = (histogram.percentile(share) for share in (0.5, 0.95, 0.99, 1))
    if p50 is None or p95 is None or p99 is None or longest is None:
        raise ValueError(f"no {kind} ended")
    return Percentiles(str(kind), histogram.total, p50, p95, p99, longest)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Stats:
    """What can be said of one window.

    Attributes:
        window: begins with the whole minute, or long ago hour, for ``figures``.
        sub: of one subscription; None: of all.
        as_of: what was committed by then is in the figures.
        states: how many of the deliveries that were made in the window are in each state now.
        figures: what happened in it, whenever its deliveries were made.
    """

    window: Window
    sub: UUID | None
    as_of: datetime
    states: Mapping[State, int]
    figures: Figures

    @property
    def received(self) -> int:
        """Give how many deliveries were made in the window."""
        return sum(self.states.values())
