"""A timeline divided into stages, and drawn: every shape of story."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dashboard.axis import Axis, without
from dashboard.story import Folded, shares, stages
from dashboard.trail import lines
from dashboard.waterfall import Bar, Group, Waterfall, draw
from fencepost.segments import SegmentKind
from fencepost.timeline import Timeline
from trails import Trail, failed_once, fenced_out, late, taken_in


def told(timeline: Timeline) -> list[tuple[str, str, int]]:
    return [(stage.title, stage.said, len(stage.segments)) for stage in stages(timeline)]


def bars(drawn: Waterfall) -> list[Bar]:
    return [bar for row in drawn.rows if isinstance(row, Group) for bar in row.bars]


def dead() -> Trail:
    trail = failed_once().add(15_200, "LEASED", "a", 2).add(15_210, "ATTEMPTED", "a", 2)
    trail.add(15_300, "FAILED", "a", 2, status=503, **{"class": "http_5xx"})
    return trail.add(15_300, "DLQ", "a", 2, reason="budget_spent")


def test_a_success_at_the_first_try() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    trail.add(90, "DELIVERED", "a", 1, status=204)
    assert told(trail.build(999)) == [("Taken in", "", 1), ("Attempt 1", "delivered 204", 3)]


def test_a_retry_sleeps_between_its_attempts() -> None:
    assert told(dead().build(99_999)) == [
        ("Taken in", "", 1), ("Attempt 1", "failed: 503", 3), ("Sleeping", "", 1),
        ("Attempt 2", "failed: 503", 3), ("Parked", "", 1),
    ]  # fmt: skip
    asleep = stages(failed_once().build(500))[2]
    assert asleep.note == "backoff with jitter; attempt 2 not before 16:53:35.131Z"


def test_a_fenced_out_worker_has_a_lane_with_its_old_token() -> None:
    timeline = fenced_out().build(99_999, late(33_200, "a1", 41))
    lane = stages(timeline)[2]
    assert (lane.is_lane, lane.said) == (True, "DELIVERED refused")
    assert (lane.worker_id, lane.fencing_token) == ("a1", 41)
    noticed = stages(fenced_out().build(99_999, late(33_200, "a1", 41, "heartbeat")))[2]
    assert noticed.said == "noticed that its lease was gone"
    silent = stages(fenced_out().build(99_999))[2]
    assert (silent.is_lane, silent.said, silent.act_ms) == (True, "no further sign of it", 30_380)


def test_a_release_and_a_claim_that_died_sent_nothing() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(25, "RELEASED", "a", 1, reason="draining")
    trail.add(25, "RETRIED", "a", 1, delay_ms=0).add(30, "LEASED", "b", 2)
    trail.add(60, "LEASE_EXPIRED", "b", 2).add(60, "RETRIED", "c", 2, delay_ms=0)
    found = [stage for stage in stages(trail.build(70)) if stage.worker_id and not stage.is_lane]
    assert [(one.title, one.said, one.was_sent) for one in found] == [
        ("Before attempt 1", "given back: draining", False),
        ("Before attempt 1", "lease lost", False),
    ]


def test_what_people_did_stands_where_they_did_it() -> None:
    trail = dead().add(50_000, "REPLAYED", "user al", operator="user al", reason="mended")
    trail.add(50_000, "RETRIED", "user al", delay_ms=0)
    act = next(stage for stage in stages(trail.build(50_100)) if stage.act_ms is not None)
    assert (act.title, act.act_ms) == ("Replayed", 50_000)
    assert act.note == "Sent again by user al: mended"
    waiting = taken_in().add(500, "DISCARDED", "al", operator="al").add(500, "DLQ", "al")
    assert [one[0] for one in told(waiting.build(600))][1:3] == ["Before attempt 1", "Discarded"]


def test_a_pause_is_held_and_an_ordered_wait_says_so() -> None:
    held = draw(taken_in().build(5_000, is_paused=True))
    assert bars(held)[-1].label == "held, subscription paused"
    trail = taken_in().add(900, "LEASED", "a", 1, waited_for="order")
    assert bars(draw(trail.build(950)))[1].label == "waiting for its turn"


def test_every_segment_is_drawn_once_in_its_place() -> None:
    timeline = fenced_out().build(99_999, late(33_200, "a1", 41))
    drawn = draw(timeline)
    assert [bar.segment for bar in bars(drawn)] == list(timeline.segments)
    whole = max(segment.end_ms for segment in timeline.segments)
    for bar in bars(drawn):
        assert bar.x == pytest.approx(100 * bar.segment.start_ms / whole, abs=0.01)
        assert bar.width == pytest.approx(100 * bar.segment.duration_ms / whole, abs=0.01)
    keys = [row.key for row in drawn.rows if isinstance(row, Group)]
    keys += [bar.key for bar in bars(drawn)]
    assert len(keys) == len(set(keys))
    assert (drawn.attempts, drawn.now_x) == ((1, 2), None)


def test_an_open_bar_has_room_to_grow() -> None:
    drawn = draw(failed_once().build(10_000))
    asleep = bars(drawn)[-1]
    assert asleep.since is not None
    assert asleep.growth > 0
    assert drawn.room_ms == 4_000
    assert drawn.now_x == pytest.approx(asleep.x + asleep.width)
    assert asleep.x + asleep.width + asleep.growth * 4 == pytest.approx(100, abs=0.01)


def test_parking_is_never_to_scale_and_does_not_grow() -> None:
    drawn = draw(dead().build(10**9))
    assert len(drawn.cuts) == 1
    assert bars(drawn)[-1].growth == 0
    assert drawn.room_ms is None
    assert bars(drawn)[4].width > 50, "the sleep, and not the week in the DLQ"


def test_compression_cuts_what_idles_long() -> None:
    timeline = dead().build(20_000)
    assert draw(timeline).can_compress
    drawn = draw(timeline, is_compressed=True)
    assert len(drawn.cuts) == 2
    asleep = next(bar for bar in bars(drawn) if bar.segment.kind is SegmentKind.SLEEPING)
    assert asleep.width == pytest.approx(5)
    active = [bar for bar in bars(drawn) if bar.segment.kind is SegmentKind.IN_FLIGHT]
    assert all(bar.width > 10 for bar in active)


def test_a_story_without_long_pauses_offers_no_compression() -> None:
    trail = taken_in().add(20, "LEASED", "a", 1).add(30, "ATTEMPTED", "a", 1)
    assert not draw(trail.add(60, "DELIVERED", "a", 1).build(99)).can_compress


def test_one_attempt_has_an_axis_of_its_own() -> None:
    drawn = draw(dead().build(20_000), attempt=2)
    assert [bar.segment.attempt for bar in bars(drawn)] == [2, 2, 2]
    assert bars(drawn)[0].x == 0
    assert bars(drawn)[-1].x + bars(drawn)[-1].width == pytest.approx(100, abs=0.01)
    assert draw(dead().build(20_000), attempt=9).rows == ()


def test_the_middle_of_a_very_long_story_is_one_line() -> None:
    trail = taken_in()
    for token in range(1, 101):
        start = token * 1_000
        trail.add(start, "LEASED", "a", token).add(start, "RELEASED", "a", token, reason="paused")
        trail.add(start, "RETRIED", "a", token, delay_ms=0)
    timeline = trail.build(200_000)
    (gap,) = [row for row in draw(timeline).rows if not isinstance(row, Group)]
    assert isinstance(gap.folded, Folded)
    assert len(draw(timeline).rows) == 29
    assert gap.folded.said == f"{gap.folded.count} times given back: paused"
    assert len(draw(timeline, is_whole=True).rows) == len(stages(timeline))


def test_an_axis_without_time_still_has_places() -> None:
    axis = Axis(5, 5)
    assert (axis.x(5), axis.x(9), axis.x(0)) == (0, 100, 0)
    all_cut = Axis(0, 100, [(0, 100)])
    assert (all_cut.x(0), all_cut.x(100)) == (0, 100)
    assert all_cut.percent_per_second(50) == 0


def test_an_axis_is_continuous_and_rises() -> None:
    axis = Axis(0, 10_000, [(1_000, 4_000), (6_000, 9_000)])
    places = [axis.x(time) for time in range(0, 10_001, 100)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 100)
    assert axis.x(4_000) - axis.x(1_000) == pytest.approx(5)
    labels = [(tick.x, tick.label) for tick in axis.ticks]
    assert all(later[0] - sooner[0] >= 9 for sooner, later in pairwise(labels))


def test_what_is_busy_is_not_idle() -> None:
    assert list(without([(0, 10)], [(2, 3), (5, 20)])) == [(0, 2), (3, 5)]
    assert list(without([(0, 10)], [(0, 10)])) == []
    assert list(without([(0, 10)], [])) == [(0, 10)]


def test_lines_stand_in_order_with_refused_writes_where_they_arrived() -> None:
    told = list(lines(fenced_out().build(99_999, late(31_000, "a1", 41))))
    assert [line.look.label for line in told][-3:] == ["attempted", "fenced out", "delivered"]
    backwards = taken_in().add(5, "LEASED", "a", 1).build(99)
    assert [line.is_backwards for line in lines(backwards)] == [False, False, True]
    assert list(lines(Timeline(None, (), (), (), 0))) == []


def test_shares_fill_the_bar() -> None:
    timeline = fenced_out().build(99_999)
    found = shares(timeline)
    assert sum(share.width for share in found) == pytest.approx(100, abs=0.01)
    assert sum(share.percent for share in found) == pytest.approx(100)
    assert {share.kind for share in found} == {one.kind for one in timeline.segments}
    assert all(share.width > 0.3 for share in found)
