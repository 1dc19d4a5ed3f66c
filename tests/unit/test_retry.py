"""When a delivery is tried again."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.retry import PRESETS, RetryPolicy, parse_retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
durations = st.timedeltas(min_value=timedelta(microseconds=1), max_value=timedelta(days=365))


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("attempt", "step"),
    [(1, 15), (2, 30), (3, 60), (8, 1920), (9, 3600), (10, 3600), (1000, 3600), (10**9, 3600)],
)
def test_the_default_doubles_from_15_seconds_to_an_hour(attempt: int, step: int) -> None:
    assert RetryPolicy().step(attempt) == seconds(step)


def test_a_cap_at_or_below_the_base_is_the_step() -> None:
    assert RetryPolicy(base=HOUR, cap=HOUR).step(1) == HOUR
    assert RetryPolicy(base=HOUR, cap=HOUR).step(2) == HOUR
    assert RetryPolicy(base=2 * HOUR, cap=HOUR).step(1) == HOUR


@given(st.integers(1, 10_000), durations, durations, st.integers())
def test_jitter_takes_between_nothing_and_half(
    attempt: int, base: timedelta, cap: timedelta, seed: int
) -> None:
    policy = RetryPolicy(base=base, cap=cap)
    step = policy.step(attempt)
    assert min(base, cap) <= step <= cap
    assert step / 2 - seconds(1e-6) <= policy.delay(attempt, Random(seed)) <= step


@given(st.integers(1, 10_000), durations, durations)
def test_steps_never_shrink(attempt: int, base: timedelta, cap: timedelta) -> None:
    policy = RetryPolicy(base=base, cap=cap)
    assert policy.step(attempt) <= policy.step(attempt + 1)


def test_jitter_spreads_what_failed_together() -> None:
    random = Random(7)
    delays = [RetryPolicy().delay(3, random) for _ in range(3000)]
    per_second = [
        sum(1 for delay in delays if second <= delay.total_seconds() < second + 1)
        for second in range(30, 60)
    ]
    assert sum(per_second) == 3000
    assert 50 < min(per_second) <= max(per_second) < 200


def test_the_standard_webhooks_preset_is_the_specification_s_schedule() -> None:
    policy = RetryPolicy(max_attempts=10, preset="standard-webhooks")
    hours = [policy.step(attempt) / HOUR for attempt in range(3, 10)]
    assert [policy.step(1), policy.step(2)] == [seconds(5), timedelta(minutes=5)]
    assert hours == [0.5, 2, 5, 10, 14, 20, 24]
    assert PRESETS["standard-webhooks"].max_attempts == 10


def test_the_three_days_preset_doubles_to_twelve_hours() -> None:
    policy = RetryPolicy(max_attempts=24, preset="three-days")
    assert [policy.step(attempt).total_seconds() for attempt in (1, 2, 12, 13, 14, 99)] == [
        15,
        30,
        30720,
        43200,
        43200,
        43200,
    ]


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        RetryPolicy().step(0)


def test_a_budget_of_five_has_four_waits() -> None:
    policy, random = RetryPolicy(max_attempts=5), Random(1)
    waits = [policy.next_attempt(attempt, NOW, NOW, random) for attempt in range(1, 7)]
    assert [wait is None for wait in waits] == [False, False, False, False, True, True]
    assert RetryPolicy(max_attempts=1).next_attempt(1, NOW, NOW, random) is None


def test_what_the_receiver_asks_for_is_a_floor() -> None:
    policy, random = RetryPolicy(), Random(1)
    assert policy.next_attempt(1, NOW, NOW, random, seconds(120)) == seconds(120)
    short = policy.next_attempt(1, NOW, NOW, random, seconds(1))
    assert short is not None
    assert short >= seconds(7.5)


def test_three_days_end_when_the_next_attempt_would_be_too_late() -> None:
    policy = RetryPolicy(max_attempts=24, preset="three-days")
    random = Random(1)
    late = NOW + timedelta(hours=72) - seconds(20)
    assert policy.next_attempt(1, NOW, late, random) is not None
    assert policy.next_attempt(1, NOW, late, random, seconds(20)) is not None
    assert policy.next_attempt(1, NOW, late, random, seconds(21)) is None
    assert RetryPolicy(max_attempts=24).next_attempt(1, NOW, late, random, HOUR) == HOUR


@given(st.integers())
def test_three_days_are_never_cut_short_by_the_number_of_attempts(seed: int) -> None:
    preset = PRESETS["three-days"]
    policy, random = (
        RetryPolicy(max_attempts=preset.max_attempts, preset="three-days"),
        Random(seed),
    )
    now = NOW
    for attempt in range(1, preset.max_attempts):
        wait = policy.next_attempt(attempt, NOW, now, random)
        if wait is None:
            break
        now += wait
        assert now <= NOW + timedelta(hours=72)
    else:
        pytest.fail("the attempts ended before the three days did")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("120", 120),
        (" 120\t", 120),
        ("007", 7),
        ("86399", 86399),
        ("86400", 86400),
        ("86401", 86400),
        ("1000000000", 86400),
        ("9" * 20, 86400),
        ("9" * 5000, 86400),
        ("Mon, 30 Nov 2026 12:01:30 GMT", 90),
        ("Monday, 30-Nov-26 12:01:30 GMT", 90),
        ("Mon Nov 30 12:01:30 2026", 90),
        ("Tue Dec  1 11:59:59 2026", 86399),
        ("mon, 30 nov 2026 12:01:30 gmt", 90),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
        ("Wednesday, 30-Nov-76 12:00:00 GMT", 86400),  # 50 years ahead: still the future
    ],
)
def test_readable_values_are_read_and_clamped(text: str, expected: int) -> None:
    assert parse_retry_after(text, NOW) == seconds(expected)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        " ",
        "-5",
        "+5",
        "1e9",
        "1.5",
        "5, 500",
        "1m0s",
        "abc",
        "٣",
        "²",
        "5\n",
        "0x10",
        "Mon, 30 Nov 2026 11:59:59 GMT",
        "Mon, 30 Nov 2026 12:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Monday, 30-Nov-77 12:00:00 GMT",  # more than 50 years ahead: it was 1977
        "Mon, 31 Feb 2027 12:00:00 GMT",
        "Mon, 30 Foo 2026 12:00:00 GMT",
        "Mon, 30 Nov 2026 25:00:00 GMT",
        "Mon, 30 Nov 2026 12:01:30 CET",
        "Mon, 30 Nov 2026 12:01:30",
        "2026-11-30T12:01:30Z",
        "Mon, 30 Nov 0000 12:01:30 GMT",
    ],
)
def test_unreadable_and_past_values_are_ignored(text: str | None) -> None:
    assert parse_retry_after(text, NOW) is None


@given(
    st.one_of(st.text(), st.from_regex(r"[A-Za-z]{3}, \d\d [A-Za-z]{3} \d{4} \d\d:\d\d:\d\d GMT"))
)
@example("\ud800")
def test_no_value_makes_it_raise(text: str) -> None:
    floor = parse_retry_after(text, NOW)
    assert floor is None or timedelta(0) <= floor <= timedelta(hours=24)
