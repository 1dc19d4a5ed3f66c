"""Trail rows and the time between them, woven into the lines of the delivery page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dashboard import presenters
from dashboard.presenters import Look
from fencepost.model import FencedWrite, TrailRow
from fencepost.segments import SegmentKind
from fencepost.states import Fact
from fencepost.timeline import Segment, Timeline
from fencepost.timeline_text import FENCED_OUT, describe, describe_fenced, format_offset

_FACTS: Final = frozenset(Fact)
_SMALLEST_SHARE: Final = 0.4
"""Percent of the bar; what is shorter is still to be seen."""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the trail, or a late write that was refused."""

    key: str
    look: Look
    offset: str
    at: datetime
    text: str
    worker_id: str | None
    fencing_token: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """The time between two lines: what the delivery was doing.

    Attributes:
        since: when it began, where it has not ended yet.
    """

    key: str
    look: Look
    segment: Segment
    took: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the whole time went into one kind of segment, and its place in the bar."""

    look: Look
    kind: SegmentKind
    took: str
    percent: float
    x: float
    width: float


def tell(timeline: Timeline) -> Iterator[Line | Span]:
    """Go through a delivery's story in order.

    A row that is a state starts one segment, or two when it slept and then waited; a row
    that is a fact starts none. A refused write stands right after the row that says that
    its lease had run out.
    """
    if not timeline.rows:
        return
    origin = timeline.rows[0].created_at
    segments = list(enumerate(timeline.segments))
    late = {(write.worker_id, write.fencing_token): write for write in timeline.fenced}
    before: TrailRow | None = None
    fenced: list[Line | Span] = []
    for row in timeline.rows:
        yield Line(
            key=f"row-{row.seq}",
            look=presenters.STATES[row.state],
            offset=format_offset(row.created_at - origin),
            at=row.created_at,
            text=describe(row, before=before),
            worker_id=row.worker_id,
            fencing_token=row.fencing_token,
        )
        before = row
        if row.state == Fact.LEASE_EXPIRED or row.state not in _FACTS:
            yield from fenced
            fenced = []
        if row.state in _FACTS:
            continue
        for index, segment in _started_by(segments):
            if segment.kind is not SegmentKind.FENCED:
                yield _span(index, segment, origin)
                continue
            fenced.append(_span(index, segment, origin))
            write = late.get((segment.worker_id or "", segment.fencing_token or 0))
            if write is not None:
                fenced.append(_refused(write, origin))
    yield from fenced


def _refused(write: FencedWrite, origin: datetime) -> Line:
    return Line(
        key=f"fenced-{write.worker_id}-{write.fencing_token}",
        look=presenters.STATES[FENCED_OUT],
        offset=format_offset(write.noted_at - origin),
        at=write.noted_at,
        text=describe_fenced(write),
        worker_id=write.worker_id,
        fencing_token=write.fencing_token,
    )


def shares(timeline: Timeline) -> Sequence[Share]:
    """Say where the time went, the segments of each kind together, in the order of the legend."""
    totals: dict[SegmentKind, int] = {}
    for segment in timeline.segments:
        if segment.kind is not SegmentKind.FENCED:
            totals[segment.kind] = totals.get(segment.kind, 0) + segment.duration_ms
    whole = sum(totals.values())
    if not whole:
        return []
    found, x = [], 0.0
    widths = {kind: max(_SMALLEST_SHARE, 100 * spent / whole) for kind, spent in totals.items()}
    scale = 100 / sum(widths.values())
    for kind, spent in totals.items():
        width = widths[kind] * scale
        look = presenters.SEGMENTS[kind]
        took = presenters.milliseconds(spent)
        found.append(Share(look, kind, took, 100 * spent / whole, round(x, 3), round(width, 3)))
        x += width
    return found


def _started_by(segments: list[tuple[int, Segment]]) -> Iterator[tuple[int, Segment]]:
    """Take the segments of one row off the front of the list."""
    goes_on = True
    while segments and (goes_on or segments[0][1].kind is SegmentKind.FENCED):
        index, segment = segments.pop(0)
        yield index, segment
        # Only a sleep that ended because its time had come is followed by a wait of its own.
        slept_out = segment.kind is SegmentKind.SLEEPING and segment.outcome is None
        goes_on = slept_out and not segment.is_open


def _span(index: int, segment: Segment, origin: datetime) -> Span:
    began = origin + timedelta(milliseconds=segment.start_ms)
    return Span(
        key=f"span-{index}",
        look=presenters.SEGMENTS[segment.kind],
        segment=segment,
        took=presenters.milliseconds(segment.duration_ms),
        since=began if segment.is_open else None,
    )
