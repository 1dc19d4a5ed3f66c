"""What a worker says of its last five minutes."""

from __future__ import annotations

import pytest

from worker.pace import SPAN_SECONDS, Pace


class Clock:
    """Seconds that rise when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nothing_has_no_percentile(clock: Clock) -> None:
    assert Pace(clock).read() == (0.0, None)


def test_a_young_worker_is_measured_by_the_time_it_has_had(clock: Clock) -> None:
    pace = Pace(clock)
    clock.now += 30
    pace.note([10.0] * 20)
    assert pace.read()[0] == pytest.approx(40)


def test_what_is_older_than_five_minutes_counts_no_more(clock: Clock) -> None:
    pace = Pace(clock)
    pace.note([1_000.0] * 100)
    clock.now += SPAN_SECONDS - 1
    pace.note([10.0] * 50)
    per_minute, p95 = pace.read()
    assert per_minute == pytest.approx(150 * 60 / 299)
    assert p95 == pytest.approx(1_000, rel=0.02)
    clock.now += 1
    per_minute, p95 = pace.read()
    assert per_minute == pytest.approx(10)
    assert p95 == pytest.approx(10, rel=0.02)


def test_the_percentile_is_over_all_that_was_noted(clock: Clock) -> None:
    pace = Pace(clock)
    for ms in range(1, 1_001):
        pace.note([float(ms)])
        clock.now += 0.25
    per_minute, p95 = pace.read()
    assert per_minute == pytest.approx(240)
    assert p95 == pytest.approx(950, rel=0.02)
