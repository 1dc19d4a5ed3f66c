"""Where each stage of a story stands on the page: rows of bars on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dashboard import presenters
from dashboard.axis import Axis, Cut, Interval, Tick, without
from dashboard.presenters import Look
from dashboard.story import Folded, Stage, fold, of_attempt, stages
from fencepost.segments import SegmentKind
from fencepost.states import Fact, State
from fencepost.timeline import Segment, Timeline
from fencepost.timeline_text import format_offset

_IDLE: Final = frozenset(
    {SegmentKind.WAITING, SegmentKind.SLEEPING, SegmentKind.HELD, SegmentKind.PARKED}
)
_LONG: Final = 3
"""An idle stretch is cut when it is longer than so many times all that was active."""
_SLIVER: Final = 0.4
"""Percent of the axis: a bar below it is hard to see, about three pixels."""
_HEADROOM: Final = 0.06
_LEAST_HEADROOM_MS: Final = 4_000
_ENDS: Final = frozenset({State.DELIVERED, Fact.FAILED, Fact.LEASE_EXPIRED, Fact.RELEASED})


@dataclass(frozen=True, slots=True)
class Bar:
    """One segment.

    Attributes:
        key: of its element.
        look: its tone; bars differ by their fill as well.
        label: what it was doing.
        offset: when it began, since receipt.
        took: how long.
        x: where it begins, percent.
        width: likewise.
        end: how it ended, where that is worth a mark.
        since: when it began, of one that has not ended yet.
        growth: how many percent it grows a second.
    """

    key: str
    segment: Segment
    look: Look
    label: str
    offset: str
    took: str
    x: float
    width: float
    end: Look | None
    since: datetime | None
    growth: float


@dataclass(frozen=True, slots=True)
class Group:
    """One stage with its bars; an act of a person has none, but a place."""

    key: str
    stage: Stage
    bars: tuple[Bar, ...]
    x: float | None
    offset: str | None

    @property
    def has_head(self) -> bool:
        """Whether its title stands on a line of its own."""
        return len(self.bars) != 1 or self.stage.worker_id is not None


@dataclass(frozen=True, slots=True)
class Gap:
    """Stages that are left out."""

    folded: Folded
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The whole picture.

    Attributes:
        rows: groups, and gaps between them.
        ticks: of the axis.
        cuts: what of the axis is not to scale.
        is_compressed: long idle stretches are cut.
        can_compress: cutting them would make something visible that is not.
        now_x: where now is; None when nothing that is open grows.
        room_ms: how long an open bar can grow before the page must be drawn anew.
        attempts: the numbers of all attempts, for stepping through them.
    """

    rows: tuple[Group | Gap, ...]
    ticks: tuple[Tick, ...]
    cuts: tuple[Cut, ...]
    is_compressed: bool
    can_compress: bool
    now_x: float | None
    room_ms: int | None
    attempts: tuple[int, ...]


def draw(
    timeline: Timeline,
    *,
    is_compressed: bool = False,
    attempt: int | None = None,
    is_whole: bool = False,
) -> Waterfall:
    """Place a story on an axis.

    Args:
        timeline: the story.
        is_compressed: cut long idle stretches.
        attempt: show this attempt alone, on an axis of its own; None: everything.
        is_whole: leave nothing out of a very long story.
    """
    told = stages(timeline)
    attempts = sorted({stage.attempt for stage in told if stage.attempt and stage.was_sent})
    if attempt is not None:
        told = of_attempt(told, attempt)
    segments = [segment for stage in told for _, segment in stage.segments]
    axis = _axis(segments, is_compressed=is_compressed)
    # Compared with the longest, what would be cut is what hides the rest.
    would_cut = is_compressed or (any(
        segment.kind not in _IDLE and 100 * segment.duration_ms < _SLIVER * (axis.end - axis.start)
        for segment in segments
    ) and bool(_cuts(segments, is_compressed=True)))  # fmt: skip
    growing = [each.end_ms for each in segments if each.is_open and not _is_cut(each)]
    return Waterfall(
        rows=tuple(_rows(timeline, told if is_whole else list(fold(told)), axis)),
        ticks=tuple(axis.ticks),
        cuts=tuple(axis.cuts),
        is_compressed=is_compressed,
        can_compress=would_cut,
        now_x=axis.x(growing[0]) if growing else None,
        room_ms=axis.end - growing[0] if growing else None,
        attempts=tuple(attempts),
    )


def _axis(segments: Sequence[Segment], *, is_compressed: bool) -> Axis:
    if not segments:
        return Axis(0, 1)
    start, end = segments[0].start_ms, max(segment.end_ms for segment in segments)
    if any(segment.is_open and not _is_cut(segment) for segment in segments):
        # Room to grow until the page is drawn anew.
        end += max(_LEAST_HEADROOM_MS, int((end - start) * _HEADROOM))
    return Axis(start, end, _cuts(segments, is_compressed=is_compressed))


def _is_cut(segment: Segment) -> bool:
    """Say whether a segment is never to scale: it lasts for as long as nobody does anything."""
    return segment.kind is SegmentKind.PARKED


def _cuts(segments: Sequence[Segment], *, is_compressed: bool) -> list[Interval]:
    """Find what is not drawn to scale: in order, and without what runs beside it."""
    active = [each for each in segments if each.kind not in _IDLE and each.duration_ms]
    long = _LONG * max(1, sum(each.duration_ms for each in active))
    idle = [
        (each.start_ms, each.end_ms)
        for each in segments
        if each.kind in _IDLE
        and each.duration_ms
        and (_is_cut(each) or (is_compressed and active and each.duration_ms > long))
    ]
    lanes = [(each.start_ms, each.end_ms) for each in active if each.kind is SegmentKind.FENCED]
    return list(without(idle, lanes))


def _rows(timeline: Timeline, told: Sequence[Stage | Folded], axis: Axis) -> Iterator[Group | Gap]:
    for number, stage in enumerate(told):
        if isinstance(stage, Folded):
            x = axis.x(stage.start_ms)
            yield Gap(stage, x, round(axis.x(stage.end_ms) - x, 3))
            continue
        at = stage.act_ms
        first = stage.segments[0][1] if stage.segments else None
        begin = at if at is not None else first.start_ms if first else None
        yield Group(
            key=f"stage-{first.seq if first else f'act-{number}'}-{number}",
            stage=stage,
            bars=tuple(_bar(timeline, index, segment, axis) for index, segment in stage.segments),
            x=None if at is None else axis.x(at),
            offset=None if begin is None else format_offset(timedelta(milliseconds=begin)),
        )


def _bar(timeline: Timeline, index: int, segment: Segment, axis: Axis) -> Bar:
    x, ending = axis.x(segment.start_ms), timeline.ended_by(segment)
    began = timedelta(milliseconds=segment.start_ms)
    end = None
    if segment.kind is SegmentKind.FENCED:
        end = presenters.STATES["FENCED_OUT"]
    elif ending is not None and ending.state in _ENDS:
        end = presenters.STATES[ending.state]
    return Bar(
        key=f"bar-{index}",
        segment=segment,
        look=presenters.SEGMENTS[segment.kind],
        label=presenters.segment_label(segment),
        offset=format_offset(began),
        took=presenters.milliseconds(segment.duration_ms),
        x=x,
        width=round(axis.x(segment.end_ms) - x, 3),
        end=end,
        since=timeline.origin + began if segment.is_open and timeline.origin else None,
        growth=axis.percent_per_second(segment.end_ms) if segment.is_open else 0.0,
    )
