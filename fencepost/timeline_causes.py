"""What went wrong or took long on the way of a delivery, one sentence a cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from fencepost.model import ErrorClass, TrailRow
from fencepost.segments import SegmentKind
from fencepost.states import Fact
from fencepost.timeline import Segment, Timeline
from fencepost.timeline_text import describe, format_duration

_LONG_WAIT_MS: Final = 1_000
_MOST_EXPIRIES: Final = 3
_MOST_NAMED: Final = 4
_UNKNOWN_OUTCOMES: Final = frozenset(
    {ErrorClass.TIMEOUT, ErrorClass.RESET, ErrorClass.BAD_RESPONSE}
)
"""Failures after which the receiver may have acted all the same."""

_WAITED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "worker": "for a worker: none was running, or none had come to it yet",
        "slot": "for a free slot: as many requests as may were in flight already",
        "rate": "for the rate limit of its subscription",
        "order": "for its turn: an earlier delivery of its subscription was not finished",
        "paused": "because its subscription was paused",
    }
)


def causes(timeline: Timeline) -> Iterator[str]:
    """Give the causes, the gravest first; none for a delivery that just went through."""
    yield from _expiries(timeline)
    yield from _failures(timeline)
    yield from _duplicates(timeline)
    yield from _waits(timeline)
    yield from _releases(timeline.rows)
    yield from _acts(timeline.rows)


def _expiries(timeline: Timeline) -> Iterator[str]:
    lost = [
        (segment, ending)
        for segment in timeline.segments
        if (ending := timeline.ended_by(segment)) is not None and ending.state == Fact.LEASE_EXPIRED
    ]
    late = {(write.worker_id, write.fencing_token): write for write in timeline.fenced}
    for segment, ending in lost[:_MOST_EXPIRIES]:
        while_ = (
            "while its request was open"
            if segment.kind is SegmentKind.IN_FLIGHT
            else "before its request left"
        )
        told = f"The lease of {ending.worker_id} (token {ending.fencing_token}) ran out {while_}"
        write = late.get((ending.worker_id or "", ending.fencing_token or 0))
        if write is None:
            yield f"{told}; there was no further sign of it."
            continue
        gap = format_duration((write.noted_at - ending.created_at).total_seconds() * 1000)
        if write.would_write == "heartbeat":
            yield f"{told}; it noticed {gap} later and dropped its result."
        else:
            yield f"{told}; {gap} later its write of {write.would_write} was refused."
    if len(lost) > _MOST_EXPIRIES:
        yield f"{len(lost) - _MOST_EXPIRIES} more leases ran out without an outcome."


def _failures(timeline: Timeline) -> Iterator[str]:
    attempts: dict[str, list[int]] = defaultdict(list)
    newest: dict[str, TrailRow] = {}
    for segment in timeline.segments:
        ending = timeline.ended_by(segment)
        if ending is None or ending.state != Fact.FAILED:
            continue
        code = ending.http_status_code
        name = f"HTTP {code}" if code else str((ending.detail or {}).get("class") or "failure")
        attempts[name].append(segment.attempt or 0)
        newest[name] = ending
    for name, numbers in attempts.items():
        said = newest[name].error_message if not newest[name].http_status_code else None
        why = f": {said}" if said else ""
        yield f"{_which(numbers)} ended with {name}{why}."


def _which(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"Attempt {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:  # noqa: PLR2004
        return f"Attempts {numbers[0]} to {numbers[-1]}"
    named = [str(number) for number in numbers[:_MOST_NAMED]]
    if len(numbers) > _MOST_NAMED:
        return f"{len(numbers)} attempts ({', '.join(named)}, …)"
    return f"Attempts {', '.join(named[:-1])} and {named[-1]}"


def _duplicates(timeline: Timeline) -> Iterator[str]:
    """Warn where a request left, no answer is known, and another one followed."""
    flights = [each for each in timeline.segments if each.kind is SegmentKind.IN_FLIGHT]
    unknown = [each.attempt or 0 for each in flights[:-1] if _is_unknown(timeline.ended_by(each))]
    if unknown:
        yield (
            f"The receiver may have seen it more than once: no answer to {_which(unknown).lower()}"
            " is known, and it was sent again. It deduplicates on webhook-id."
        )


def _is_unknown(ending: TrailRow | None) -> bool:
    if ending is None:
        return False
    is_lost = ending.state == Fact.LEASE_EXPIRED
    failed_as = (ending.detail or {}).get("class")
    return is_lost or (ending.http_status_code is None and failed_as in _UNKNOWN_OUTCOMES)


def _waits(timeline: Timeline) -> Iterator[str]:
    waits: dict[str, list[Segment]] = defaultdict(list)
    for segment in timeline.segments:
        if segment.kind is SegmentKind.HELD:
            waits["paused"].append(segment)
        elif segment.kind is SegmentKind.WAITING and not segment.is_open:
            waits[segment.waited_for or "worker"].append(segment)
    for reason, segments in sorted(waits.items(), key=lambda item: -_total(item[1])):
        if _total(segments) < _LONG_WAIT_MS:
            continue
        longest = max(segments, key=lambda segment: segment.duration_ms)
        verb = "was held" if reason == "paused" else "waited"
        times = "" if len(segments) == 1 else (
            f" in all, the longest time {format_duration(longest.duration_ms)}"
            f" before attempt {longest.attempt}"
        )  # fmt: skip
        what = _WAITED.get(reason, f"for {reason}")
        yield f"It {verb} {format_duration(_total(segments))}{times} {what}."


def _total(segments: Iterable[Segment]) -> int:
    return sum(segment.duration_ms for segment in segments)


def _releases(rows: Iterable[TrailRow]) -> Iterator[str]:
    released = [row for row in rows if row.state == Fact.RELEASED]
    counts = Counter(describe(row).rpartition(": ")[2] for row in released)
    for reason, count in counts.most_common():
        often = "once" if count == 1 else f"{count} times"
        yield f"It was given back unsent {often}: {reason}."


def _acts(rows: Iterable[TrailRow]) -> Iterator[str]:
    acts = [row for row in rows if row.state in (Fact.REPLAYED, Fact.DISCARDED)]
    for row in acts[-_MOST_NAMED:]:
        yield f"{describe(row)}."
