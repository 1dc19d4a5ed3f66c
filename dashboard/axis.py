"""The time axis of a waterfall: milliseconds to percent, to scale or with long pauses cut short."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dashboard import presenters

Interval = tuple[int, int]

_BREAK_WIDTH: Final = 5.0
"""Percent of the axis that a cut takes, whatever its length."""
_BREAKS_TOGETHER: Final = 45.0
_TICKS: Final = 5
_TICK_GAP: Final = 9.0
"""Percent between two labels, so that they do not run into each other."""
_STEPS: Final = tuple(
    [base * 10**power for power in range(4) for base in (1, 2, 5)]
    + [seconds * 1000 for seconds in (10, 15, 30)]
    + [minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30)]
    + [hours * 3_600_000 for hours in (1, 2, 3, 6, 12)]
    + [days * 86_400_000 for days in (1, 2, 5, 10, 30, 90, 365)]
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment that is named on the axis."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch that is not to scale."""

    x: float
    width: float
    took: str


class Axis:
    """Maps moments to places, 0 to 100.

    Args:
        start: the first moment, milliseconds.
        end: the last one.
        cuts: stretches that take a fixed width; in order, without overlap.
    """

    def __init__(self, start: int, end: int, cuts: Sequence[Interval] = ()) -> None:
        self.start, self.end = start, max(end, start + 1)
        self._cuts = [
            (max(a, start), min(b, self.end)) for a, b in cuts if a < self.end and b > start
        ]
        width = min(_BREAK_WIDTH, _BREAKS_TOGETHER / len(self._cuts)) if self._cuts else 0.0
        scaled = self.end - self.start - sum(b - a for a, b in self._cuts)
        if not scaled:
            width = 100.0 / len(self._cuts)
        self._per_ms = (100.0 - width * len(self._cuts)) / scaled if scaled else 0.0
        self._times: list[int] = []
        self._places: list[float] = []
        at, place = self.start, 0.0
        for a, b in [*self._cuts, (self.end, self.end)]:
            self._mark(at, place)
            place += (a - at) * self._per_ms
            self._mark(a, place)
            place += width if b > a else 0.0
            at = b
        self._width = width

    def _mark(self, time: int, place: float) -> None:
        self._times.append(time)
        self._places.append(place)

    def x(self, time: int) -> float:
        """Give the place of a moment."""
        time = min(max(time, self.start), self.end)
        after = min(bisect_right(self._times, time), len(self._times) - 1)
        before = max(after - 1, 0)
        span = self._times[after] - self._times[before]
        share = (time - self._times[before]) / span if span else 1.0
        gap = self._places[after] - self._places[before]
        return round(self._places[before] + share * gap, 3)

    def percent_per_second(self, time: int) -> float:
        """Say how fast a bar grows whose end is at that moment: not at all within a cut."""
        is_cut = any(a < time <= b for a, b in self._cuts)
        return 0.0 if is_cut else round(self._per_ms * 1000, 6)

    @property
    def is_to_scale(self) -> bool:
        """Whether nothing is cut."""
        return not self._cuts

    @property
    def cuts(self) -> Iterator[Cut]:
        """Give what is not to scale."""
        for a, b in self._cuts:
            yield Cut(self.x(a), round(self._width, 3), presenters.milliseconds(b - a))

    @property
    def ticks(self) -> Iterator[Tick]:
        """Name round moments, as many as there is room for, none within a cut."""
        scaled = 100.0 / self._per_ms if self._per_ms else 0.0
        step = next((each for each in _STEPS if each * _TICKS >= scaled), _STEPS[-1])
        last = -_TICK_GAP
        for time in self._round_moments(step):
            x = self.x(time)
            is_clear = all(abs(x - cut.x - cut.width / 2) >= _TICK_GAP / 2 for cut in self.cuts)
            if x - last >= _TICK_GAP and x <= 100 - _TICK_GAP / 2 and is_clear:
                yield Tick(x, presenters.offset(time))
                last = x

    def _round_moments(self, step: int) -> Iterator[int]:
        """Go through the stretches between the cuts; each begins with its own first moment."""
        ends = [self.start, *(each for cut in self._cuts for each in cut), self.end]
        for a, b in list(pairwise(ends))[::2]:
            if b > a:
                yield a
            yield from range((a // step + 1) * step, b, step)


def without(intervals: Iterable[Interval], busy: Sequence[Interval]) -> Iterator[Interval]:
    """Take what is busy out of intervals; what is left of each, in order."""
    for start, end in intervals:
        at = start
        for a, b in sorted(busy):
            if b <= at or a >= end:
                continue
            if a > at:
                yield at, a
            at = max(at, b)
        if at < end:
            yield at, end
