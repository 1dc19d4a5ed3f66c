"""A timeline as the delivery page tells it: stages, each with its bars, and what people did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dashboard import presenters
from dashboard.presenters import Look
from fencepost.model import TrailRow
from fencepost.moments import format_moment
from fencepost.segments import SegmentKind
from fencepost.states import Fact, State
from fencepost.timeline import Segment, Timeline
from fencepost.timeline_text import FENCED_OUT, describe

_WAITS: Final = frozenset({SegmentKind.WAITING, SegmentKind.HELD})
_OF_A_VISIT: Final = frozenset({SegmentKind.PREPARING, SegmentKind.IN_FLIGHT})
_INTO_A_VISIT: Final = frozenset({State.LEASED, State.ATTEMPTED})
_ACTS: Final = frozenset({Fact.REPLAYED, Fact.DISCARDED})
_MOST_STAGES: Final = 40
_FIRST_STAGES, _LAST_STAGES = 4, 24


@dataclass(slots=True)
class Stage:
    """A part of the story that belongs together: one claim with its wait, one sleep, one act.

    Attributes:
        title: a few words.
        look: how it came out.
        said: the outcome in words.
        note: what else there is to know.
        segments: with their places in the timeline, in order.
        worker_id: who held it.
        fencing_token: of that holder.
        attempt: the attempt that it is or waits for.
        act_ms: when, where it is what somebody did and took no time.
        is_lane: it runs beside the others: a worker without its lease.
        was_sent: a request left.
    """

    title: str
    look: Look
    said: str = ""
    note: str = ""
    segments: list[tuple[int, Segment]] = field(default_factory=list)
    worker_id: str | None = None
    fencing_token: int | None = None
    attempt: int | None = None
    act_ms: int | None = None
    is_lane: bool = False
    was_sent: bool = False


@dataclass(frozen=True, slots=True)
class Folded:
    """Stages in the middle of a long story, told in one line."""

    count: int
    said: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the whole time went into one kind of segment, and its place in the bar."""

    look: Look
    kind: SegmentKind
    took: str
    percent: float
    x: float
    width: float


def stages(timeline: Timeline) -> list[Stage]:
    """Divide a timeline into its stages, in order."""
    told: list[Stage] = []
    late = {(each.worker_id, each.fencing_token) for each in timeline.fenced}
    for index, segment in enumerate(timeline.segments):
        ending = timeline.ended_by(segment)
        stage = told[-1] if told and _goes_on(told[-1], segment) else None
        if stage is None:
            stage = _open(timeline, segment)
            told.append(stage)
        stage.segments.append((index, segment))
        if segment.kind in _OF_A_VISIT:
            stage.worker_id, stage.fencing_token = segment.worker_id, segment.fencing_token
            stage.was_sent |= segment.kind is SegmentKind.IN_FLIGHT
        if segment.kind in _OF_A_VISIT | _WAITS:
            stage.title, stage.look, stage.said = _came_out(segment, ending)
        if ending is None:
            continue
        if ending.state in _ACTS:
            told.append(_act(timeline, ending))
        elif ending.state == Fact.LEASE_EXPIRED and _lease(ending) not in late:
            told.append(_no_further_sign(segment))
    return told


def _goes_on(stage: Stage, segment: Segment) -> bool:
    """Say whether a segment belongs to the stage before it: a wait, its claim, its request."""
    if segment.kind not in _OF_A_VISIT or not stage.segments:
        return False
    before = stage.segments[-1][1]
    return before.kind in _WAITS | _OF_A_VISIT and before.outcome in _INTO_A_VISIT


def _open(timeline: Timeline, segment: Segment) -> Stage:
    look = presenters.SEGMENTS[segment.kind]
    stage = Stage(look.label.capitalize(), look, attempt=segment.attempt)
    match segment.kind:
        case SegmentKind.INGEST:
            stage.title, stage.note = (
                "Taken in",
                f"by {segment.worker_id}" if segment.worker_id else "",
            )
        case SegmentKind.SLEEPING:
            stage.title, stage.note = "Sleeping", _why_asleep(timeline, segment)
        case SegmentKind.PARKED:
            stage.title = "Parked" if segment.is_open else "Parked in between"
        case SegmentKind.FENCED:
            stage.title, stage.is_lane = f"{segment.worker_id} without its lease", True
            stage.worker_id, stage.fencing_token = segment.worker_id, segment.fencing_token
            stage.look = presenters.STATES[FENCED_OUT]
            stage.said = (
                "noticed that its lease was gone"
                if segment.outcome == "heartbeat"
                else f"{segment.outcome} refused"
            )
        case _:
            pass
    return stage


def _why_asleep(timeline: Timeline, segment: Segment) -> str:
    first = timeline.rows[0].seq
    place = (segment.seq or first) - first
    row = timeline.rows[place]
    said = describe(row, before=timeline.rows[place - 1] if place else None)
    why = said.partition("(")[2].rstrip(")") if "(" in said else ""
    due = (row.detail or {}).get("due_at")
    until = f"attempt {segment.attempt}"
    if isinstance(due, str):
        until += f" not before {format_moment(presenters.read_moment(due))[11:]}"
    return f"{why}; {until}" if why else until


def _came_out(segment: Segment, ending: TrailRow | None) -> tuple[str, Look, str]:
    title = f"Attempt {segment.attempt}"
    if ending is None:
        look = presenters.SEGMENTS[segment.kind]
        return title, look, look.label
    look, detail = presenters.STATES[ending.state], ending.detail or {}
    failed_as = str(detail.get("class") or "failed").replace("_", " ")
    code = ending.http_status_code
    match ending.state:
        case State.DELIVERED:
            said = f"delivered {code or ''}".strip()
        case Fact.FAILED:
            said = f"failed: {code or failed_as}"
        case Fact.LEASE_EXPIRED:
            said = "lease lost"
        case Fact.RELEASED:
            said = f"given back: {str(detail.get('reason')).replace('_', ' ')}"
        case Fact.REPLAYED | Fact.DISCARDED:
            title, said = f"Before attempt {segment.attempt}", "ended by an operator"
        case _:
            look, said = presenters.SEGMENTS[segment.kind], ""
    if segment.kind is SegmentKind.PREPARING and said:
        title = f"Before attempt {segment.attempt}"
    return title, look, said


def _act(timeline: Timeline, row: TrailRow) -> Stage:
    at = timeline.offset_ms(row.created_at)
    return Stage(
        "Replayed" if row.state == Fact.REPLAYED else "Discarded",
        presenters.STATES[row.state],
        note=describe(row),
        act_ms=at,
    )


def _no_further_sign(segment: Segment) -> Stage:
    return Stage(
        f"{segment.worker_id} without its lease",
        presenters.STATES[FENCED_OUT],
        said="no further sign of it",
        attempt=segment.attempt,
        worker_id=segment.worker_id,
        fencing_token=segment.fencing_token,
        act_ms=segment.end_ms,
        is_lane=True,
    )


def _lease(row: TrailRow) -> tuple[str, int]:
    return row.worker_id or "", row.fencing_token or 0


@dataclass(frozen=True, slots=True)
class Sending:
    """One request in a list of them; ``ended`` is None while it is open."""

    stage: Stage
    sent: TrailRow
    ended: TrailRow | None
    took: str


def sending(timeline: Timeline, stage: Stage) -> Sending:
    """Give what a list of attempts shows of a stage in which a request left."""
    flight = next(each for _, each in stage.segments if each.kind is SegmentKind.IN_FLIGHT)
    place = (flight.seq or 0) - timeline.rows[0].seq
    return Sending(
        stage,
        sent=timeline.rows[place],
        ended=timeline.ended_by(flight),
        took=presenters.milliseconds(flight.duration_ms),
    )


def of_attempt(told: Sequence[Stage], attempt: int) -> list[Stage]:
    """Choose what belongs to one attempt: its claims with their waits, and lanes beside them."""
    return [
        stage
        for stage in told
        if stage.attempt == attempt
        and all(segment.kind is not SegmentKind.SLEEPING for _, segment in stage.segments)
    ]


def fold(told: Sequence[Stage]) -> Iterator[Stage | Folded]:
    """Leave the middle of a very long story out, but for one line that counts it."""
    if len(told) <= _MOST_STAGES:
        yield from told
        return
    hidden = told[_FIRST_STAGES:-_LAST_STAGES]
    segments = [segment for stage in hidden for _, segment in stage.segments]
    said = Counter(stage.said for stage in hidden if stage.said)
    yield from told[:_FIRST_STAGES]
    yield Folded(
        count=len(hidden),
        said=", ".join(f"{count} times {what}" for what, count in said.most_common(3)),
        start_ms=segments[0].start_ms if segments else 0,
        end_ms=segments[-1].end_ms if segments else 0,
    )
    yield from told[-_LAST_STAGES:]


_SMALLEST_SHARE: Final = 0.4
"""Percent of the bar; what is shorter is still to be seen."""


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
