"""Rates and costs of a benchmark's samples: what start and end of a run cost is not in them."""

from __future__ import annotations

import pytest

from fencepost.bench.series import Sample, Series


def samples(*points: tuple[float, int, float]) -> list[Sample]:
    """Make samples of moments, requests and the worker's seconds; memory grows by 1 MB each."""
    return [
        Sample(at=at, done=done, cpu={"worker": cpu}, memory_mb=100.0 + place)
        for place, (at, done, cpu) in enumerate(points)
    ]


RUN = Series(
    samples(
        (0.0, 0, 0.0),
        (2.0, 100, 5.0),  # a slow and dear start
        (3.0, 500, 5.2),
        (4.0, 900, 5.4),
        (9.0, 1000, 9.0),  # and a slow end
    ),
    1000,
)


def test_the_steady_stretch_has_neither_start_nor_end() -> None:
    even = RUN.steady()
    assert even.per_second == pytest.approx(800 / 2)
    assert even.cpu_us("worker") == pytest.approx(0.4 / 800 * 1e6)


def test_all_of_it_has_both() -> None:
    assert RUN.per_second == pytest.approx(1000 / 9)
    assert RUN.cpu_us("worker") == pytest.approx(9000)


def test_a_run_of_one_leap_counts_as_a_whole() -> None:
    leap = Series(samples((0.0, 0, 0.0), (0.5, 1000, 0.1)), 1000)
    assert leap.steady().per_second == pytest.approx(2000)


def test_a_share_is_the_first_sample_that_reaches_it() -> None:
    assert RUN.at_share(0.2).memory_mb == pytest.approx(102)
    assert RUN.at_share(1).memory_mb == pytest.approx(104)


def test_what_nobody_measured_or_did_has_no_figure() -> None:
    assert RUN.cpu_us("store") is None
    nothing = Series(samples((0.0, 0, 0.0), (1.0, 0, 0.1)), 1000)
    assert nothing.per_second is None
    assert nothing.cpu_us("worker") is None
