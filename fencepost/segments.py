"""What a delivery was doing between two rows of its trail: one rule, for timelines and figures."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from fencepost.states import State


class SegmentKind(StrEnum):
    """What a delivery was doing. Source: CONTRACT section 7."""

    INGEST = "ingest"  # taken in, not sealed yet
    WAITING = "waiting"  # due, but no worker has claimed it
    SLEEPING = "sleeping"  # not due yet
    HELD = "held"  # due, but its subscription is paused
    PREPARING = "preparing"  # leased, no request yet
    IN_FLIGHT = "in_flight"  # the request is out
    FENCED = "fenced"  # beside the others: a worker ran on without its lease
    PARKED = "parked"  # finished, until somebody replays it


class WaitedFor(StrEnum):
    """What a wait waited for, as the claim that ended it recorded. Source: CONTRACT section 2."""

    WORKER = "worker"  # no worker looked
    SLOT = "slot"  # as many in flight as may be
    RATE = "rate"  # the rate limit
    ORDER = "order"  # an older delivery of an ordered subscription
    PAUSED = "paused"  # the subscription was paused


class Part(StrEnum):
    """Which part of the time from one row to the next."""

    WHOLE = "whole"
    UNTIL_DUE = "until_due"  # none unless it fell due later
    SINCE_DUE = "since_due"  # none when it ended before it fell due


class Rule(NamedTuple):
    """After a row of ``state``, for this part of the time until the next, it was ``kind``."""

    state: State
    part: Part
    kind: SegmentKind


RULES: Final = (
    Rule(State.RECEIVED, Part.WHOLE, SegmentKind.INGEST),
    Rule(State.ENCRYPTED, Part.UNTIL_DUE, SegmentKind.SLEEPING),
    Rule(State.ENCRYPTED, Part.SINCE_DUE, SegmentKind.WAITING),
    Rule(State.RETRIED, Part.UNTIL_DUE, SegmentKind.SLEEPING),
    Rule(State.RETRIED, Part.SINCE_DUE, SegmentKind.WAITING),
    Rule(State.LEASED, Part.WHOLE, SegmentKind.PREPARING),
    Rule(State.ATTEMPTED, Part.WHOLE, SegmentKind.IN_FLIGHT),
    Rule(State.DELIVERED, Part.WHOLE, SegmentKind.PARKED),
    Rule(State.DLQ, Part.WHOLE, SegmentKind.PARKED),
)
"""Everything there is, in the order of time. A fact has no rule: it ended the segment before
it, and the row after it, of the same statement, begins the next.

``timeline`` applies this table to one trail, ``store.rollups`` writes it into its SQL.
"""


class Span(NamedTuple):
    """A segment's kind and its two ends."""

    kind: SegmentKind
    begin: datetime
    end: datetime


def divide(
    state: State,
    *,
    begin: datetime,
    end: datetime,
    due: datetime | None,
    waited_for: str | None,
) -> tuple[Span, ...]:
    """Divide the time that follows a row.

    Args:
        state: of the row.
        begin: when the row was written.
        end: when the next one was, or now.
        due: when a claim may come; None: from ``begin`` on.
        waited_for: as the next row says; of a wait that lasts, what is known of it now.

    Returns:
        In order and without a gap; never empty. Only a ``begin`` that is after ``end`` (a clock
        went backwards) makes one that runs backwards.
    """
    found = []
    for rule in RULES:
        if rule.state is not state:
            continue
        if rule.part is Part.UNTIL_DUE:
            if due is not None and due > begin:
                found.append(Span(rule.kind, begin, min(due, end)))
        elif rule.part is Part.WHOLE or due is None or due <= begin:
            found.append(Span(_held(rule.kind, waited_for), begin, end))
        elif due <= end:
            found.append(Span(_held(rule.kind, waited_for), due, end))
    return tuple(found)


def _held(kind: SegmentKind, waited_for: str | None) -> SegmentKind:
    is_held = kind is SegmentKind.WAITING and waited_for == WaitedFor.PAUSED
    return SegmentKind.HELD if is_held else kind
