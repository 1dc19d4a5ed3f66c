"""Words for states, lengths and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboard import presenters
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


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0"), (250, "250 ms"), (31_400, "31.4 s"), (60_000, "1 m"), (150_000, "2 m 30 s"),
        (3_600_000, "1 h"), (5_400_000, "1 h 30 m"), (2 * 86_400_000, "2 d"),
    ],
)  # fmt: skip
def test_a_moment_on_an_axis_is_short(ms: int, text: str) -> None:
    assert presenters.offset(ms) == text
