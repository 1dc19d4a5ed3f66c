"""Trail rows to segments of time: one function for page, API and command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Final

from fencepost.model import Delivery, FencedWrite, TrailRow
from fencepost.segments import SegmentKind, WaitedFor, divide
from fencepost.states import Fact, State


@dataclass(frozen=True, slots=True)
class Segment:
    """One stretch of a delivery's time.

    Attributes:
        kind: what it was doing.
        start_ms: since the first row of the trail.
        duration_ms: never negative; an open segment's runs until the timeline's ``now``.
        worker_id: who held it; for ``ingest`` the node; None while nobody did.
        fencing_token: of that holder.
        attempt: the attempt it belongs to or waits for; None for ``ingest`` and ``parked``.
        outcome: the state of the row that ended it; for ``fenced`` what would have been written;
            None for an open segment and for a sleep that ended because its time had come.
        waited_for: of a wait that is over: ``worker``, ``slot``, ``rate``, ``order`` or
            ``paused``, as the claim recorded it.
        seq: of the row that began it; for ``fenced`` of the row that says that its lease ran out,
            None where no row does.
        is_open: it has not ended yet.
    """

    kind: SegmentKind
    start_ms: int
    duration_ms: int
    worker_id: str | None = None
    fencing_token: int | None = None
    attempt: int | None = None
    outcome: str | None = None
    waited_for: str | None = None
    seq: int | None = None
    is_open: bool = False

    @property
    def end_ms(self) -> int:
        """When it ended, or ``now``, since the first row of the trail."""
        return self.start_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class Timeline:
    """The story of one delivery, or an excerpt of it.

    Attributes:
        origin: when the first row of the trail was written; None for an empty trail.
        rows: the trail, in the order of ``seq``.
        segments: in order; all but the ``fenced`` ones follow each other without a gap, a fenced
            one stands right after the segment whose lease ran out.
        fenced: the late writes that were refused, in the order of their arrival.
        total_ms: what the segments that are not ``fenced`` add up to.
    """

    origin: datetime | None
    rows: tuple[TrailRow, ...]
    segments: tuple[Segment, ...]
    fenced: tuple[FencedWrite, ...]
    total_ms: int

    def offset_ms(self, moment: datetime) -> int:
        """Count the milliseconds from the first row of the trail."""
        return 0 if self.origin is None else (moment - self.origin) // timedelta(milliseconds=1)

    def ended_by(self, segment: Segment) -> TrailRow | None:
        """Give the row that ended a segment: None where it is open or its time had come."""
        if segment.outcome is None or segment.seq is None or segment.kind is SegmentKind.FENCED:
            return None
        return self.rows[segment.seq + 1 - self.rows[0].seq]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where the rows at hand stand in a trail that is too long to be told at once.

    Attributes:
        origin: when the first row of the whole trail was written.
        attempts: how many requests had left before the first row at hand.
        is_last: the newest row is among them.
    """

    origin: datetime
    attempts: int
    is_last: bool


_FACTS: Final = frozenset(Fact)
_OWNED: Final = frozenset({SegmentKind.INGEST, SegmentKind.PREPARING, SegmentKind.IN_FLIGHT})
_WAITS: Final = frozenset({SegmentKind.WAITING, SegmentKind.HELD})
_OUTSIDE_ATTEMPTS: Final = frozenset({SegmentKind.INGEST, SegmentKind.PARKED})


def build(
    rows: Sequence[TrailRow],
    *,
    delivery: Delivery,
    fenced: Sequence[FencedWrite],
    now: datetime,
    is_paused: bool = False,
    excerpt: Excerpt | None = None,
) -> Timeline:
    """Turn a trail into segments.

    Args:
        rows: the delivery's trail in the order of ``seq``.
        delivery: tells when the newest row falls due, should the row itself not say.
        fenced: the delivery's refused late writes.
        now: the database's clock, aware; only open segments depend on it.
        is_paused: whether the subscription is paused now: then an open wait is ``held``.
        excerpt: which part of the trail ``rows`` are; None: all of it. Only the late writes
            that belong to leases of that part are told.
    """
    late = tuple(sorted(fenced, key=lambda write: write.noted_at))
    if not rows:
        return Timeline(None, (), (), late, 0)
    whole = Excerpt(rows[0].created_at, attempts=0, is_last=True)
    at = excerpt or whole
    tape = _Tape(at.origin, now, begins=rows[0].created_at)
    attempts = at.attempts
    for row, ending in zip_longest(rows, rows[1:]):
        attempts += row.state == State.ATTEMPTED
        if row.state in _FACTS:
            continue  # it ended the segment before it, and the row after it starts the next
        if ending is None and (row.state == State.DELIVERED or not at.is_last):
            break  # nothing grows after delivery; what a later row ended is told with that row
        waited_for = _waited_for(ending, is_paused=is_paused)
        *before, last = divide(
            State(row.state),
            begin=row.created_at,
            end=now if ending is None else ending.created_at,
            due=_due_at(row, delivery),
            waited_for=waited_for,
        )
        for span in before:
            tape.add_until(_begin(row, span.kind, attempts), span.end)
        segment = _begin(row, last.kind, attempts)
        if ending is not None and last.kind in _WAITS:
            segment = replace(segment, waited_for=waited_for)
        tape.add(segment, ending)
    if excerpt is not None:
        leases = {(row.worker_id, row.fencing_token) for row in rows}
        late = tuple(each for each in late if (each.worker_id, each.fencing_token) in leases)
    return Timeline(at.origin, tuple(rows), _with_fenced(tape, late), late, tape.told_ms)


class _Tape:
    """Segments end to end: each starts where the last one ended, and none runs backwards."""

    def __init__(self, origin: datetime, now: datetime, *, begins: datetime) -> None:
        self._origin = origin
        self._now = now
        self._begins_ms = self.end_ms = self.milliseconds(begins)
        self.segments: list[Segment] = []

    @property
    def told_ms(self) -> int:
        """What its segments add up to."""
        return self.end_ms - self._begins_ms

    def milliseconds(self, moment: datetime) -> int:
        """Count from the first row, rounded down, so that neighbours meet exactly."""
        return (moment - self._origin) // timedelta(milliseconds=1)

    def add(self, segment: Segment, ending: TrailRow | None) -> None:
        """Append what ended with ``ending``, or is still open."""
        if ending is None:
            self.add_until(replace(segment, is_open=True), self._now)
        else:
            self.add_until(replace(segment, outcome=ending.state), ending.created_at)

    def add_until(self, segment: Segment, moment: datetime) -> None:
        """Append what ended at ``moment``; when that is past already, it took no time."""
        start = self.end_ms
        self.end_ms = max(start, self.milliseconds(moment))
        self.segments.append(replace(segment, start_ms=start, duration_ms=self.end_ms - start))


def _begin(row: TrailRow, kind: SegmentKind, attempts: int) -> Segment:
    attempt = attempts if kind is SegmentKind.IN_FLIGHT else attempts + 1
    is_owned = kind in _OWNED
    return Segment(
        kind,
        start_ms=0,
        duration_ms=0,
        worker_id=row.worker_id if is_owned else None,
        fencing_token=row.fencing_token if is_owned else None,
        attempt=None if kind in _OUTSIDE_ATTEMPTS else attempt,
        seq=row.seq,
    )


def _due_at(row: TrailRow, delivery: Delivery) -> datetime | None:
    detail = row.detail or {}
    due, delay = detail.get("due_at"), detail.get("delay_ms")
    if isinstance(due, str):
        return datetime.fromisoformat(due)
    if isinstance(delay, int | float):
        return row.created_at + timedelta(milliseconds=delay)
    return delivery.next_attempt_at if delivery.seq == row.seq else None


def _waited_for(ending: TrailRow | None, *, is_paused: bool) -> str | None:
    if ending is None:
        return WaitedFor.PAUSED if is_paused else None
    found = (ending.detail or {}).get("waited_for")
    return found if isinstance(found, str) else None


def _with_fenced(tape: _Tape, late: Sequence[FencedWrite]) -> tuple[Segment, ...]:
    """Put each refused write right after the segment during which its lease ran out."""
    segments = list(tape.segments)
    for write in reversed(late):
        start, attempt, place = tape.milliseconds(write.noted_at), None, len(segments)
        seq = None
        for index, held in enumerate(segments):
            if (held.worker_id, held.fencing_token) == (write.worker_id, write.fencing_token):
                start = held.start_ms + held.duration_ms
                attempt, place = held.attempt, index + 1
                seq = None if held.seq is None else held.seq + 1
        fenced = Segment(
            SegmentKind.FENCED,
            start_ms=start,
            duration_ms=max(0, tape.milliseconds(write.noted_at) - start),
            worker_id=write.worker_id,
            fencing_token=write.fencing_token,
            attempt=attempt,
            outcome=write.would_write,
            seq=seq,
        )
        segments.insert(place, fenced)
    return tuple(segments)
