"""A trail becomes segments that add up, whatever happened to the delivery."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.segments import SegmentKind
from fencepost.states import FINISHED, TRANSITIONS, Fact, State, causes_from
from fencepost.timeline import Excerpt, Segment, Timeline, build
from trails import ORIGIN, Trail, at, delivery, fenced_out, late, taken_in


def told(timeline: Timeline) -> list[tuple[Any, ...]]:
    return [
        (segment.kind.value, segment.start_ms, segment.duration_ms, segment.outcome)
        for segment in timeline.segments
    ]


def test_the_seeds_delivery_failed_slept_and_was_delivered() -> None:
    trail = Trail().add(0, "RECEIVED", "web-1").add(4, "ENCRYPTED")
    trail.add(12, "LEASED", "wrk-402", 1).add(15, "ATTEMPTED", "wrk-402", 1)
    trail.add(120, "FAILED", "wrk-402", 1)
    trail.add(120, "RETRIED", "wrk-402", 1, delay_ms=15_000)
    trail.add(15_125, "LEASED", "wrk-109", 2).add(15_128, "ATTEMPTED", "wrk-109", 2)
    trail.add(15_210, "DELIVERED", "wrk-109", 2)

    timeline = trail.build(now=999_999)

    assert told(timeline) == [
        ("ingest", 0, 4, "ENCRYPTED"),
        ("waiting", 4, 8, "LEASED"),
        ("preparing", 12, 3, "ATTEMPTED"),
        ("in_flight", 15, 105, "FAILED"),
        ("sleeping", 120, 15_000, None),
        ("waiting", 15_120, 5, "LEASED"),
        ("preparing", 15_125, 3, "ATTEMPTED"),
        ("in_flight", 15_128, 82, "DELIVERED"),
    ]
    assert timeline.total_ms == 15_210
    assert [segment.attempt for segment in timeline.segments] == [None, 1, 1, 1, 2, 2, 2, 2]
    assert [segment.fencing_token for segment in timeline.segments][2:4] == [1, 1]
    assert timeline.segments[0].worker_id == "web-1"
    assert timeline.segments[4].worker_id is None


def test_a_fenced_out_worker_gets_a_lane_of_its_own_after_the_lease_it_lost() -> None:
    timeline = fenced_out().build(99_999, late(33_200, "a1", 41))

    assert told(timeline)[3:6] == [
        ("in_flight", 391, 29_989, "LEASE_EXPIRED"),
        ("fenced", 30_380, 2_820, "DELIVERED"),
        ("waiting", 30_380, 520, "LEASED"),
    ]
    lane = timeline.segments[4]
    assert (lane.worker_id, lane.fencing_token, lane.attempt, lane.seq) == ("a1", 41, 1, 5)
    assert timeline.total_ms == 31_420, "what a stale worker did is beside the delivery's time"


def test_refused_writes_of_two_workers_each_stand_under_their_own_lease() -> None:
    trail = taken_in()
    for start, worker, token in ((100, "a", 1), (1_100, "b", 2)):
        trail.add(start, "LEASED", worker, token).add(start + 10, "ATTEMPTED", worker, token)
        trail.add(start + 900, "LEASE_EXPIRED", worker, token)
        trail.add(start + 900, "RETRIED", "reaper", token, delay_ms=0)
    trail.add(2_100, "LEASED", "c", 3).add(2_110, "ATTEMPTED", "c", 3)
    trail.add(2_200, "DELIVERED", "c", 3)

    timeline = trail.build(2_200, late(2_500, "b", 2), late(2_400, "a", 1, "heartbeat"))

    lanes = [(s.worker_id, s.start_ms, s.duration_ms, s.outcome, s.attempt)
             for s in timeline.segments if s.kind is SegmentKind.FENCED]  # fmt: skip
    assert lanes == [("a", 1_000, 1_400, "heartbeat", 1), ("b", 2_000, 500, "DELIVERED", 2)]
    assert [write.worker_id for write in timeline.fenced] == ["a", "b"]


def test_a_refused_write_without_a_known_lease_takes_no_time() -> None:
    timeline = taken_in().build(50, late(40, "ghost", 7))
    assert told(timeline)[-1] == ("fenced", 40, 0, "DELIVERED")


def test_a_worker_killed_before_its_request_was_only_preparing() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30_020, "LEASE_EXPIRED", "a", 1)
    trail.add(30_020, "RETRIED", "b", 1, delay_ms=0)
    assert told(trail.build(30_025))[2:] == [
        ("preparing", 20, 30_000, "LEASE_EXPIRED"),
        ("waiting", 30_020, 5, None),
    ]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (1_100, [("sleeping", 1_000, 100, None, True)]),
        (6_500, [("sleeping", 1_000, 5_000, None, False), ("waiting", 6_000, 500, None, True)]),
    ],
)
def test_an_open_delivery_runs_until_now(
    now: int, expected: list[tuple[str, int, int, str | None, bool]]
) -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(1_000, "FAILED", "a", 1)
    trail.add(1_000, "RETRIED", "a", 1, delay_ms=5_000, due_at=at(6_000).isoformat())
    segments = trail.build(now).segments[4:]
    assert [
        (s.kind.value, s.start_ms, s.duration_ms, s.outcome, s.is_open) for s in segments
    ] == expected


def test_the_moment_in_due_at_wins_over_the_delay() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "RELEASED", "a", 1, reason="draining")
    trail.add(30, "RETRIED", "a", 1, delay_ms=9_999, due_at="2026-11-30T16:53:20.531+00:00")
    assert trail.build(10_000).segments[3].duration_ms == 500


def test_a_row_that_does_not_say_when_it_is_due_leaves_it_to_the_delivery() -> None:
    rows = taken_in().rows
    timeline = build(rows, delivery=delivery(rows, at(500)), fenced=(), now=at(700))
    assert told(timeline)[1:] == [("sleeping", 12, 488, None), ("waiting", 500, 200, None)]


def test_a_pause_is_told_from_a_wait_for_a_worker() -> None:
    trail = taken_in()
    assert trail.build(500).segments[-1].kind is SegmentKind.WAITING
    assert trail.build(500, is_paused=True).segments[-1].kind is SegmentKind.HELD
    trail.add(900, "LEASED", "a", 1, waited_for="paused")
    kinds = [segment.kind for segment in trail.build(950, is_paused=False).segments]
    assert kinds == [SegmentKind.INGEST, SegmentKind.HELD, SegmentKind.PREPARING]


def test_a_wait_says_what_it_waited_for_once_it_is_over() -> None:
    trail = taken_in()
    assert trail.build(500).segments[-1].waited_for is None
    trail.add(900, "LEASED", "a", 1, waited_for="rate").add(910, "ATTEMPTED", "a", 1)
    waited = [segment.waited_for for segment in trail.build(950).segments]
    assert waited == [None, "rate", None, None]


def test_every_segment_knows_the_rows_that_began_and_ended_it() -> None:
    timeline = fenced_out().build(99_999, late(33_200, "a1", 41))
    for segment in timeline.segments:
        ending = timeline.ended_by(segment)
        if segment.kind is SegmentKind.FENCED:
            assert ending is None
        else:
            assert ending is not None
            assert ending.state == segment.outcome
            assert ending.seq == (segment.seq or 0) + 1


@pytest.mark.parametrize("cut", range(2, 9))
def test_two_parts_of_a_trail_make_the_segments_of_the_whole(cut: int) -> None:
    """The older part has the row that begins the newer one: what it ends is told there."""
    trail = fenced_out()
    whole = trail.build(99_999)
    attempts = sum(row.state == State.ATTEMPTED for row in trail.rows[: cut - 1])
    older = trail.part(1, cut, attempts=0)
    newer = trail.part(cut, len(trail.rows), attempts=attempts, now=99_999)
    assert older.segments + newer.segments == whole.segments
    assert older.total_ms + newer.total_ms == whole.total_ms


def test_a_part_leaves_out_late_writes_to_leases_that_it_does_not_show() -> None:
    trail, write = fenced_out(), late(33_200, "a1", 41)
    excerpt = Excerpt(ORIGIN, 1, is_last=True)
    rows = trail.rows[6:]
    part = build(
        rows, delivery=delivery(trail.rows), fenced=[write], now=at(99_999), excerpt=excerpt
    )
    assert part.fenced == ()
    assert [segment.attempt for segment in part.segments] == [2, 2]


def test_a_claim_before_the_due_time_ends_the_sleep() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(40, "FAILED", "a", 1).add(40, "RETRIED", "a", 1, delay_ms=60_000)
    trail.add(1_000, "REPLAYED", "alice").add(1_000, "RETRIED", "alice", delay_ms=0)
    trail.add(1_004, "LEASED", "a", 2)
    assert told(trail.build(1_010))[4:] == [
        ("sleeping", 40, 960, "REPLAYED"),
        ("waiting", 1_000, 4, "LEASED"),
        ("preparing", 1_004, 6, None),
    ]


def test_a_dead_letter_is_parked_until_its_replay() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(40, "FAILED", "a", 1).add(40, "DLQ", "a", 1, reason="http_4xx")
    assert told(trail.build(5_000))[-1] == ("parked", 40, 4_960, None)
    assert trail.build(5_000).segments[-1].is_open
    trail.add(7_000, "REPLAYED", "alice").add(7_000, "RETRIED", "alice", delay_ms=0)
    assert told(trail.build(7_001))[-2:] == [
        ("parked", 40, 6_960, "REPLAYED"),
        ("waiting", 7_000, 1, None),
    ]


def test_a_delivered_one_that_is_replayed_was_parked_in_between() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(40, "DELIVERED", "a", 1)
    assert trail.build(9_999).total_ms == 40
    trail.add(5_000, "REPLAYED", "alice").add(5_000, "RETRIED", "alice", delay_ms=0)
    assert told(trail.build(5_000))[-2] == ("parked", 40, 4_960, "REPLAYED")


def test_a_clock_that_went_backwards_costs_no_negative_time() -> None:
    trail = taken_in().add(500, "LEASED", "a", 1).add(200, "ATTEMPTED", "a", 1)
    trail.add(600, "DELIVERED", "a", 1)
    assert [s.duration_ms for s in trail.build(600).segments] == [12, 488, 0, 100]


def test_no_rows_make_an_empty_timeline() -> None:
    timeline = build((), delivery=delivery(taken_in().rows), fenced=(), now=at(9))
    assert (timeline.segments, timeline.total_ms) == ((), 0)


@st.composite
def trails(draw: st.DrawFn) -> Trail:
    """Walk the table of legal moves; the clock may stand still or step back."""
    trail = Trail().add(0, "RECEIVED", "web-1")
    state, ms, token = State.RECEIVED, 0.0, 0
    for _ in range(draw(st.integers(0, 25))):
        causes = sorted(causes_from(state))
        if not causes:
            break
        found = TRANSITIONS[state, draw(st.sampled_from(causes))]
        ms += draw(st.floats(-50, 5_000))
        token += found.to is State.LEASED
        for name in found.rows:
            delay = draw(st.integers(0, 9_000)) if name is State.RETRIED else None
            detail: dict[str, Any] = {} if delay is None else {"delay_ms": delay}
            trail.add(ms, name, f"w{token}", token, **detail)
        state = found.to
    return trail


@given(trail=trails(), now=st.floats(0, 200_000))
def test_every_legal_trail_adds_up(trail: Trail, now: float) -> None:
    last = max(row.created_at for row in trail.rows)
    now = max(now, (last - ORIGIN) / timedelta(milliseconds=1))
    stale = [late(now, row.worker_id or "", row.fencing_token or 0)
             for row in trail.rows if row.state == Fact.LEASE_EXPIRED]  # fmt: skip
    timeline = trail.build(now, *stale)

    own = [segment for segment in timeline.segments if segment.kind is not SegmentKind.FENCED]
    assert all(segment.duration_ms >= 0 for segment in timeline.segments)
    assert sum(segment.duration_ms for segment in own) == timeline.total_ms
    assert [segment.start_ms for segment in own] == ends_of(own)
    assert [segment.is_open for segment in own[:-1]] == [False] * (len(own) - 1 if own else 0)
    state = State(trail.rows[-1].state)
    assert not own or own[-1].is_open is (state is not State.DELIVERED)
    if state is State.DELIVERED:
        assert told(timeline) == told(trail.build(now + 60_000, *stale))
    assert len(timeline.segments) - len(own) == len(stale)


def ends_of(segments: list[Segment]) -> list[int]:
    ends, total = [], 0
    for segment in segments:
        ends.append(total)
        total += segment.duration_ms
    return ends


def test_every_state_opens_a_segment_and_only_finished_ones_are_parked() -> None:
    for state in State:
        timeline = Trail().add(0, "RECEIVED").add(5, state).add(9, "REPLAYED").build(10)
        parked = timeline.segments[1].kind is SegmentKind.PARKED
        assert parked is (state in FINISHED)
