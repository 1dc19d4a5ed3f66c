"""Charts as plain geometry: the same numbers are drawn, named where one points, and tabled.

Places are percent of the plot, so that it can be as wide as its page; y counts from the top.
Nothing here knows what is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

_MOST_TICKS: Final = 6
_TICK_STEPS: Final = (
    *(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)),
    *(timedelta(days=days) for days in (1, 2, 5, 10, 30, 90, 365)),
)
_DAY: Final = timedelta(days=1)
_EDGE: Final = 5.0
"""Percent of the plot: a label nearer to its end would be cut off."""
_LEAST: Final = 1.2
"""Percent of the plot's height: what is not nothing can be seen."""

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Tick:
    """A value or a moment that is named at the side of the plot."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Part:
    """One of the numbers that a bar is stacked of."""

    key: str
    value: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One step of time.

    Attributes:
        at: its beginning.
        parts: from the bottom up; those that are nothing included.
        title: all of it in words.
        is_growing: it has not ended yet.
    """

    at: datetime
    x: float
    width: float
    parts: tuple[Part, ...]
    title: str
    is_growing: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars over time.

    Attributes:
        keys: what is stacked, from the bottom up, each with its name.
        totals: of each key over all bars.
    """

    keys: Mapping[str, str]
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    totals: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """One step of time, with a value for each line; None: nothing to be said.

    Attributes:
        count: how many the values are made of.
        y: where each value stands.
    """

    at: datetime
    x: float
    width: float
    values: Mapping[str, float | None]
    y: Mapping[str, float | None]
    count: int
    title: str


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over time.

    Attributes:
        keys: the lines, each with its name.
        paths: of each key the SVG path, in a box of 100 by 100; broken where nothing is known.
        write: how a value is written.
    """

    keys: Mapping[str, str]
    points: tuple[Point, ...]
    paths: Mapping[str, str]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    write: Format


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to places.

    Attributes:
        y: of a value.
        ticks: the values that are named.
    """

    y: Callable[[float], float]
    ticks: tuple[Tick, ...]


def stack(
    slots: Sequence[tuple[datetime, Mapping[str, int]]],
    *,
    keys: Mapping[str, str],
    step: timedelta,
    until: datetime,
) -> Bars:
    """Stack numbers, step by step.

    Args:
        slots: the beginning and the numbers of every step, in order.
        keys: which numbers, from the bottom up, and how they are called.
        step: how long each is.
        until: when the last one is cut off.
    """
    highest = max((sum(numbers[key] for key in keys) for _, numbers in slots), default=0)
    scale = linear(highest, write=lambda value: f"{value:,.0f}")
    bars = []
    for (at, numbers), (x, width) in zip(slots, _places(len(slots)), strict=True):
        is_growing = at + step > until
        said = ", ".join(f"{numbers[key]:,} {name}" for key, name in keys.items())
        title = _title(at, step, f"{said} so far" if is_growing else said)
        bars.append(Bar(at, x, width, tuple(_pile(numbers, keys, scale)), title, is_growing))
    return Bars(
        keys=keys,
        bars=tuple(bars),
        x_ticks=tuple(_moments([at for at, _ in slots], step)),
        y_ticks=scale.ticks,
        totals={key: sum(numbers[key] for _, numbers in slots) for key in keys},
    )


def trace(
    slots: Sequence[tuple[datetime, Mapping[str, float | None], int]],
    *,
    keys: Mapping[str, str],
    step: timedelta,
    scale: Scale,
    write: Format,
) -> Lines:
    """Draw lines, step by step.

    Args:
        slots: the beginning of every step, its values, and how many these are made of.
        keys: the lines, and how they are called.
        step: how long each is.
        scale: ``linear`` or ``logarithmic``.
        write: how a value is written.
    """
    points = tuple(
        Point(
            at=at,
            x=x,
            width=width,
            values=values,
            y={key: _height(values[key], scale) for key in keys},
            count=count,
            title=_title(at, step, _said(keys, values, count, write)),
        )
        for (at, values, count), (x, width) in zip(slots, _places(len(slots)), strict=True)
    )
    return Lines(
        keys=keys,
        points=points,
        paths={key: _path(points, key) for key in keys},
        x_ticks=tuple(_moments([at for at, *_ in slots], step)),
        y_ticks=scale.ticks,
        write=write,
    )


def spark(values: Sequence[int]) -> str:
    """Give the path of a line without axes, in a box of 100 by 100; empty of fewer than two."""
    highest = max(values, default=0) or 1
    last = len(values) - 1
    places = (
        f"{100 * n / last:.2f} {100 - 100 * value / highest:.2f}"
        for n, value in enumerate(values)
        if last
    )
    joined = "L".join(places)
    return f"M{joined}" if joined else ""


def linear(highest: float, *, write: Format) -> Scale:
    """Make a scale from nothing to a round number that is not below the highest value."""
    top = _round_up(highest)
    ticks = (Tick(0.0, write(top)), Tick(50.0, write(top / 2)), Tick(100.0, write(0)))
    # Half of one is no number of things.
    shown = ticks if top % 2 == 0 or top < 1 else ticks[::2]
    return Scale(y=lambda value: round(100 - 100 * value / top, 2), ticks=shown)


def logarithmic(values: Iterable[float], *, named: Mapping[float, str]) -> Scale:
    """Make a scale on which each step is so many times the one before.

    Args:
        values: what has to fit; those up to 0 stand at the bottom.
        named: the values that may be named, ascending, with their labels; the scale begins and
            ends at one of them.
    """
    marks, given = list(named), [value for value in values if value > 0]
    low = max((mark for mark in marks if given and mark <= min(given)), default=marks[0])
    high = min((mark for mark in marks if given and mark >= max(given)), default=marks[-1])
    if not given or low >= high:
        place = marks.index(low)
        low, high = marks[max(0, place - 1)], marks[min(place + 1, len(marks) - 1)]
    shown = [mark for mark in marks if low <= mark <= high]
    every = -(-len(shown) // _MOST_TICKS)

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return round(100 - 100 * math.log(inside / low) / math.log(high / low), 2)

    return Scale(y=y, ticks=tuple(Tick(y(mark), named[mark]) for mark in shown[::every]))


def _places(count: int) -> Iterator[tuple[float, float]]:
    for n in range(count):
        yield round(100 * n / count, 3), round(100 / count, 3)


def _pile(numbers: Mapping[str, int], keys: Iterable[str], scale: Scale) -> Iterator[Part]:
    """Stack from the bottom up; what is above always has room to be seen."""
    bottom, below = 100.0, 0
    above = sum(numbers[key] > 0 for key in keys)
    for key in keys:
        below += numbers[key]
        top = bottom
        if numbers[key]:
            above -= 1
            top = round(max(min(scale.y(below), bottom - _LEAST), above * _LEAST), 2)
        yield Part(key, numbers[key], top, round(bottom - top, 2))
        bottom = top


def _said(
    keys: Mapping[str, str], values: Mapping[str, float | None], count: int, write: Format
) -> str:
    known = ((name, values[key]) for key, name in keys.items())
    told = [f"{name} {write(value)}" for name, value in known if value is not None]
    return ", ".join([*told, f"n {count:,}"]) if count else "nothing ended"


def _title(at: datetime, step: timedelta, said: str) -> str:
    return f"{span(at, step)}: {said}"


def span(at: datetime, step: timedelta) -> str:
    """Write a step of time, in UTC: its beginning, and its end where that is not a minute on."""
    begin = at.astimezone(UTC)
    if step <= timedelta(minutes=1):
        return f"{begin:%H:%MZ}"
    if step < _DAY:
        return f"{begin:%d %b %H:%M}\N{EN DASH}{begin + step:%H:%MZ}"
    return f"{begin:%Y-%m-%d %H:%MZ}, {step // _DAY} d"


def _height(value: float | None, scale: Scale) -> float | None:
    return None if value is None else scale.y(value)


def _path(points: Sequence[Point], key: str) -> str:
    """Join what stands side by side; what stands alone becomes a dash as long as its step."""
    path = []
    for is_known, run in groupby(points, key=lambda point: point.y[key] is not None):
        if not is_known:
            continue
        places = [(point.x + point.width / 2, point.y[key]) for point in run]
        if len(places) == 1:
            ((x, y),) = places
            half = points[0].width / 2
            places = [(x - half, y), (x + half, y)]
        path.append("M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places))
    return "".join(path)


def _moments(begins: Sequence[datetime], step: timedelta) -> Iterator[Tick]:
    """Name round moments, no more than there is room for."""
    if not begins:
        return
    first, whole = begins[0], step * len(begins)
    gap = next((each for each in _TICK_STEPS if each * _MOST_TICKS >= whole), _TICK_STEPS[-1])
    midnight = first.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + gap * -((midnight - first) // gap)
    while at < first + whole:
        x = 100 * ((at - first) / whole)
        if _EDGE <= x <= 100 - _EDGE:
            yield Tick(round(x, 3), f"{at:%d %b}" if gap >= _DAY else f"{at:%H:%M}")
        at += gap


def _round_up(highest: float) -> float:
    """Give the next of 1, 2, 4, 5, 10, 20 … that is not below."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(base * power for base in (1, 2, 4, 5, 10) if base * power >= highest)
