"""A histogram's percentiles stay within the stated error of the exact ones, merged or not."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.histograms import (
    LAST,
    RELATIVE_ERROR,
    SMALLEST_MS,
    Histogram,
    bucket_of,
    value_of,
)

TEN_YEARS = 10 * 365 * 86_400_000.0
DURATIONS = st.lists(st.floats(0, TEN_YEARS), max_size=200)
SHARES = (0.01, 0.5, 0.95, 0.99, 1.0)


def nearest_rank(durations: list[float], share: float) -> float:
    return sorted(durations)[math.ceil(share * len(durations)) - 1]


@given(DURATIONS.filter(bool))
def test_percentiles_are_within_the_stated_error(durations: list[float]) -> None:
    found = Histogram.of(durations)
    assert found.total == len(durations)
    for share in SHARES:
        exact = nearest_rank(durations, share)
        assert found.percentile(share) == pytest.approx(
            exact, rel=RELATIVE_ERROR * (1 + 1e-9), abs=SMALLEST_MS
        )


@given(DURATIONS, DURATIONS, DURATIONS)
def test_merged_histograms_are_as_one_that_saw_everything(
    one: list[float], two: list[float], three: list[float]
) -> None:
    whole = Histogram.of(one + two + three)
    parts = [Histogram.of(part) for part in (one, two, three)]
    assert (parts[0] + parts[1]) + parts[2] == whole
    assert parts[0] + (parts[1] + parts[2]) == whole
    assert parts[2] + parts[0] + parts[1] == whole


@given(DURATIONS)
def test_arrays_hold_all_of_it(durations: list[float]) -> None:
    found = Histogram.of(durations)
    buckets, counts = found.to_arrays()
    assert buckets == sorted(set(buckets))
    assert all(counts)
    assert Histogram.from_arrays(buckets, counts) == found


@given(st.floats(0, TEN_YEARS), st.floats(0, TEN_YEARS))
def test_longer_is_never_an_earlier_bucket(one: float, two: float) -> None:
    shorter, longer = sorted((one, two))
    assert 0 <= bucket_of(shorter) <= bucket_of(longer) < LAST


def test_a_bucket_stands_for_itself() -> None:
    assert [bucket_of(value_of(bucket)) for bucket in range(LAST + 1)] == list(range(LAST + 1))
    assert all(one < two for one, two in pairwise(map(value_of, range(LAST + 1))))


def test_nothing_has_no_percentiles() -> None:
    assert Histogram().percentile(0.5) is None
    assert Histogram().total == 0
    assert Histogram() + Histogram() == Histogram.of([])


def test_what_takes_no_time_is_no_time() -> None:
    assert Histogram.of([-3, 0, SMALLEST_MS]).percentile(1) == 0
    assert bucket_of(SMALLEST_MS * 1.001) == 1


@pytest.mark.parametrize("share", [0, -0.5, 1.01, 50])
def test_a_percentile_is_asked_for_as_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="no share"):
        Histogram.of([1]).percentile(share)
