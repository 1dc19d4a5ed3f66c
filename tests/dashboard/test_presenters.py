"""Words for states, lengths and moments; the story that they are part of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from dashboard import presenters
from dashboard.story import Line, Span, shares, tell
from fencepost import timeline
from fencepost.model import Delivery, FencedWrite, TrailRow
from fencepost.segments import SegmentKind
from fencepost.states import Fact, State

START = datetime(2026, 11, 30, 16, 53, 20, tzinfo=UTC)


@pytest.mark.parametrize("name", [*State, *Fact])
def test_everything_in_a_trail_has_a_look(name: str) -> None:
    assert presenters.STATES[name].label


def test_every_segment_and_state_has_words() -> None:
    assert set(presenters.SEGMENTS) == set(SegmentKind)
    assert set(presenters.STATE_MEANING) == set(State)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"), (0.38, "380 ms"), (0.9999, "1000 ms"), (6.48, "6.48 s"), (98.04, "1 m 38.0 s"),
        (119.99, "2 m 00.0 s"), (4 * 3600 + 120, "4 h 02 m"), (3 * 86400 + 4 * 3600, "3 d 04 h"),
        (-5, "-5.00 s"),
    ],
)  # fmt: skip
def test_a_length_of_time(seconds: float, text: str) -> None:
    assert presenters.duration(seconds) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (0.2, "now"), (12, "12 s ago"), (59.9, "59 s ago"), (240, "4 m ago"), (7200, "2 h ago"),
        (-38, "in 38 s"), (86400 * 6, "2026-11-24"), (-86400 * 6, "2026-12-06"),
    ],
)  # fmt: skip
def test_a_moment_as_seen_from_now(ago: float, text: str) -> None:
    assert presenters.relative(START - timedelta(seconds=ago), START) == text


def test_a_moment_is_exact_to_the_millisecond_and_names_its_zone() -> None:
    elsewhere = START.astimezone() + timedelta(microseconds=123_999)
    assert presenters.exact(elsewhere) == "2026-11-30 16:53:20.123Z"
    assert presenters.rfc3339(elsewhere) == "2026-11-30T16:53:20.123Z"


def trail(*rows: tuple[float, str, dict[str, Any]]) -> list[TrailRow]:
    return [
        TrailRow(
            seq=number,
            state=state,
            created_at=START + timedelta(seconds=at),
            worker_id=more.get("worker_id"),
            fencing_token=more.get("token"),
            http_status_code=more.get("status"),
            latency_ms=None,
            error_message=None,
            detail=more.get("detail"),
        )
        for number, (at, state, more) in enumerate(rows, 1)
    ]


def delivery(rows: list[TrailRow]) -> Delivery:
    fields: dict[str, Any] = dict.fromkeys(Delivery.__dataclass_fields__)
    return Delivery(**{**fields, "id": uuid4(), "seq": rows[-1].seq})


A, B = {"worker_id": "a", "token": 1}, {"worker_id": "b", "token": 2}
STORY = trail(
    (0, "RECEIVED", {}), (0.01, "ENCRYPTED", {}), (0.4, "LEASED", A), (0.41, "ATTEMPTED", A),
    (30.4, "LEASE_EXPIRED", A), (30.4, "RETRIED", {"worker_id": "b", "token": 1}),
    (31, "LEASED", B), (31.1, "ATTEMPTED", B), (31.6, "FAILED", {**B, "status": 503}),
    (31.6, "RETRIED", {**B, "detail": {"delay_ms": 60_000}}), (98, "LEASED", B),
    (98.1, "ATTEMPTED", B), (98.2, "DELIVERED", {**B, "status": 200}),
)  # fmt: skip


def test_a_story_is_told_in_order() -> None:
    late = FencedWrite(uuid4(), "a", 1, "DELIVERED", START + timedelta(seconds=33), None)
    told = timeline.build(
        STORY, delivery=delivery(STORY), fenced=[late], now=START + timedelta(days=1)
    )
    shown = [
        one.look.label if isinstance(one, Line) else f"({one.segment.kind} {one.took})"
        for one in tell(told)
    ]
    assert shown == [
        "received", "(ingest 10 ms)", "encrypted", "(waiting 390 ms)", "leased",
        "(preparing 10 ms)",
        "attempted", "(in_flight 29.99 s)", "lease expired", "(fenced 2.60 s)", "fenced out",
        "retried", "(waiting 600 ms)", "leased", "(preparing 100 ms)", "attempted",
        "(in_flight 500 ms)", "failed", "retried", "(sleeping 1 m 00.0 s)", "(waiting 6.40 s)",
        "leased", "(preparing 100 ms)", "attempted", "(in_flight 100 ms)", "delivered",
    ]  # fmt: skip
    keys = [one.key for one in tell(told)]
    assert len(keys) == len(set(keys))


def test_every_row_and_segment_is_told_once() -> None:
    for length in range(1, len(STORY) + 1):
        rows = STORY[:length]
        told = timeline.build(
            rows, delivery=delivery(rows), fenced=[], now=rows[-1].created_at + timedelta(seconds=9)
        )
        lines = list(tell(told))
        assert sum(isinstance(one, Line) for one in lines) == length
        assert tuple(one.segment for one in lines if isinstance(one, Span)) == told.segments


def test_what_is_open_grows_from_its_start() -> None:
    rows = STORY[:4]
    told = timeline.build(
        rows, delivery=delivery(rows), fenced=[], now=START + timedelta(seconds=10)
    )
    last = list(tell(told))[-1]
    assert isinstance(last, Span)
    assert last.since == START + timedelta(seconds=0.41)


def test_shares_fill_the_bar() -> None:
    told = timeline.build(STORY, delivery=delivery(STORY), fenced=[], now=START)
    found = shares(told)
    assert sum(share.width for share in found) == pytest.approx(100, abs=0.01)
    assert sum(share.percent for share in found) == pytest.approx(100)
    assert {share.kind for share in found} == {one.kind for one in told.segments}
    assert all(share.width > 0.3 for share in found)


def test_no_rows_are_no_story() -> None:
    told = timeline.build([], delivery=delivery(STORY), fenced=[], now=START)
    assert list(tell(told)) == []
    assert list(shares(told)) == []
