"""The deliveries of one event side by side: each on one line, all on one axis of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from dashboard import presenters
from dashboard.axis import Axis, Cut, Interval, Tick, without
from dashboard.presenters import Look
from fencepost.segments import SegmentKind
from fencepost.states import Fact, State
from fencepost.timeline import Segment, Timeline

_IDLE: Final = frozenset({SegmentKind.WAITING, SegmentKind.SLEEPING, SegmentKind.HELD})
_LONG: Final = 3
"""A stretch in which nobody does anything is cut when it is so many times all the rest."""
_MARKED: Final = frozenset({State.DELIVERED, Fact.FAILED, Fact.LEASE_EXPIRED, Fact.RELEASED})


@dataclass(frozen=True, slots=True)
class Mark:
    """One segment.

    Attributes:
        start_ms: since the first of all deliveries was received.
        end: how it ended, where that is worth a sign.
    """

    kind: SegmentKind
    look: Look
    x: float
    width: float
    start_ms: int
    duration_ms: int
    title: str
    end: Look | None


@dataclass(frozen=True, slots=True)
class Strip:
    """One delivery; ``says`` tells the same in words."""

    marks: tuple[Mark, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Strips:
    """All of them.

    Attributes:
        of: by delivery.
        ticks: of the axis that they share.
        cuts: what of it is not to scale.
        can_compress: there are long stretches in which nobody does anything.
        is_open: something is still going on.
    """

    of: Mapping[UUID, Strip]
    ticks: tuple[Tick, ...]
    cuts: tuple[Cut, ...]
    can_compress: bool
    is_open: bool


def draw(timelines: Mapping[UUID, Timeline], *, is_compressed: bool = False) -> Strips:
    """Place deliveries on one axis: from the first that was received to the last that ended.

    Whoever is parked is past its end, and is not drawn; while all are, until a replay, the axis
    is cut.

    Args:
        timelines: by delivery.
        is_compressed: cut also what is long and spent waiting.
    """
    origins = [each.origin for each in timelines.values() if each.origin is not None]
    origin = min(origins, default=None)
    placed = {
        id_: [(_after(timeline, origin), segment) for segment in timeline.segments]
        for id_, timeline in timelines.items()
    }
    shown = [
        (offset + segment.start_ms, offset + segment.end_ms, segment)
        for segments in placed.values()
        for offset, segment in segments
        if segment.kind is not SegmentKind.PARKED
    ]
    end = max((stop for _, stop, _ in shown), default=1)
    alive = [(start, stop) for start, stop, _ in shown]
    active = [(start, stop) for start, stop, segment in shown if segment.kind not in _IDLE]
    parked = list(without([(0, end)], alive)) if shown else []
    idle = list(_long(without([(0, end)], active), end)) if active else []
    axis = Axis(0, end, idle if is_compressed else parked)
    return Strips(
        of={id_: _strip(timelines[id_], segments, axis) for id_, segments in placed.items()},
        ticks=tuple(axis.ticks),
        cuts=tuple(axis.cuts),
        can_compress=idle != parked,
        is_open=any(segment.is_open for *_, segment in shown),
    )


def _after(timeline: Timeline, origin: datetime | None) -> int:
    if timeline.origin is None or origin is None:
        return 0
    return (timeline.origin - origin) // timedelta(milliseconds=1)


def _long(gaps: Iterator[Interval], end: int) -> Iterator[Interval]:
    """Choose the gaps that hide the rest."""
    found = list(gaps)
    busy = max(1, end - sum(stop - start for start, stop in found))
    return (gap for gap in found if gap[1] - gap[0] > _LONG * busy)


def _strip(timeline: Timeline, segments: list[tuple[int, Segment]], axis: Axis) -> Strip:
    marks = []
    for offset, segment in segments:
        if segment.kind is SegmentKind.PARKED:
            continue
        start = offset + segment.start_ms
        x = axis.x(start)
        ending = timeline.ended_by(segment)
        label = presenters.segment_label(segment)
        took = presenters.milliseconds(segment.duration_ms)
        marks.append(
            Mark(
                kind=segment.kind,
                look=presenters.SEGMENTS[segment.kind],
                x=x,
                width=round(axis.x(start + segment.duration_ms) - x, 3),
                start_ms=start,
                duration_ms=segment.duration_ms,
                title=f"{label} {took}{' so far' if segment.is_open else ''}",
                end=presenters.STATES[ending.state] if ending and ending.state in _MARKED else None,
            )
        )
    return Strip(tuple(marks), ", then ".join(mark.title for mark in marks))
