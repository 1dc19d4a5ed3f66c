"""Charts are geometry: what is drawn is what is tabled, and both are what was counted."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import charts
from dashboard.charts import Bars, Lines

AT = datetime(2026, 11, 30, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEYS = {"good": "delivered", "bad": "failed"}
MARKS = {1.0: "1 ms", 10.0: "10 ms", 100.0: "100 ms", 1000.0: "1 s"}


def stack(*pairs: tuple[int, int], step: timedelta = MINUTE) -> Bars:
    slots = [(AT + n * step, {"good": a, "bad": b}) for n, (a, b) in enumerate(pairs)]
    return charts.stack(slots, keys=KEYS, step=step, until=AT + len(pairs) * step)


def trace(*values: float | None) -> Lines:
    slots = [(AT + n * MINUTE, {"p50": value}, 3) for n, value in enumerate(values)]
    known = [value for value in values if value is not None]
    return charts.trace(
        slots,
        keys={"p50": "p50"},
        step=MINUTE,
        scale=charts.logarithmic(known, named=MARKS),
        write=lambda ms: f"{ms:g} ms",
    )


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=60))
def test_bars_stand_on_each_other_as_high_as_their_numbers(pairs: list[tuple[int, int]]) -> None:
    chart = stack(*pairs)
    top = float(chart.y_ticks[0].label.replace(",", ""))
    assert top >= max(map(sum, pairs))
    for bar, pair in zip(chart.bars, pairs, strict=True):
        assert tuple(part.value for part in bar.parts) == pair
        bottom = 100.0
        for part in bar.parts:
            assert part.y + part.height == pytest.approx(bottom, abs=0.02)
            assert part.height == pytest.approx(100 * part.value / top, abs=2.5)
            assert bool(part.value) == bool(part.height)
            bottom = part.y
        assert bottom >= 0
        assert bar.title.endswith(f"{pair[0]:,} delivered, {pair[1]:,} failed")
    assert chart.totals == {"good": sum(a for a, _ in pairs), "bad": sum(b for _, b in pairs)}
    assert chart.bars[-1].x + chart.bars[-1].width == pytest.approx(100, abs=0.1)


def test_the_step_that_has_not_ended_says_so() -> None:
    slots = [(AT, {"good": 1, "bad": 0}), (AT + MINUTE, {"good": 1, "bad": 0})]
    until = AT + timedelta(seconds=90)
    first, last = charts.stack(slots, keys=KEYS, step=MINUTE, until=until).bars
    assert (first.is_growing, last.is_growing) == (False, True)
    assert last.title == "16:01Z: 1 delivered, 0 failed so far"


def test_a_bar_of_longer_steps_names_both_its_ends() -> None:
    assert (
        stack((1, 0), step=timedelta(minutes=30))
        .bars[0]
        .title.startswith("30 Nov 16:00\N{EN DASH}16:30Z: ")
    )
    assert stack((1, 0), step=timedelta(days=2)).bars[0].title.startswith("2026-11-30 16:00Z, 2 d:")


def test_nothing_at_all_is_drawn_as_nothing() -> None:
    chart = stack((0, 0), (0, 0))
    assert [tick.label for tick in chart.y_ticks] == ["1", "0"]
    assert {part.height for bar in chart.bars for part in bar.parts} == {0.0}
    assert trace(None, None).paths == {"p50": ""}
    assert [point.title for point in trace(None).points] == ["16:00Z: n 3"]


@given(st.lists(st.floats(0.1, 5_000) | st.none(), min_size=1, max_size=60))
def test_a_line_goes_through_its_values_and_breaks_where_there_is_none(
    values: list[float | None],
) -> None:
    chart = trace(*values)
    assert [point.values["p50"] for point in chart.points] == values
    runs = [run for run in chart.paths["p50"].split("M") if run]
    expected = len(re.findall(r"1+", "".join("0" if v is None else "1" for v in values)))
    assert len(runs) == expected
    for point in chart.points:
        value, y = point.values["p50"], point.y["p50"]
        assert (value is None) == (y is None)
        if value is not None and y is not None:
            assert 0 <= y <= 100
            assert f"p50 {value:g} ms" in point.title
    order = sorted((p.values["p50"], p.y["p50"]) for p in chart.points if p.y["p50"] is not None)
    assert [y for _, y in order] == sorted((y for _, y in order), reverse=True)


def test_a_logarithmic_scale_begins_and_ends_at_what_is_named() -> None:
    scale = charts.logarithmic([12, 80], named=MARKS)
    assert [(tick.label, tick.at) for tick in scale.ticks] == [("10 ms", 100.0), ("100 ms", 0.0)]
    assert scale.y(10**0.5 * 10) == 50
    assert scale.y(0) == 100
    assert scale.y(10**9) == 0


@pytest.mark.parametrize(
    ("steps", "step", "labels"),
    [
        (60, MINUTE, ["16:10", "16:20", "16:30", "16:40", "16:50"]),
        (48, timedelta(minutes=30), ["18:00", "00:00", "06:00", "12:00"]),
        (56, timedelta(hours=3), ["02 Dec", "04 Dec", "06 Dec"]),
    ],
)
def test_round_moments_are_named(steps: int, step: timedelta, labels: list[str]) -> None:
    assert [tick.label for tick in stack(*[(1, 0)] * steps, step=step).x_ticks] == labels


def test_a_spark_goes_from_edge_to_edge() -> None:
    assert charts.spark([0, 2, 1]) == "M0.00 100.00L50.00 0.00L100.00 50.00"
    assert charts.spark([]) == charts.spark([5]) == ""
