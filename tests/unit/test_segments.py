"""The time between two rows is divided without a gap, by a table that knows every state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.segments import RULES, Part, Rule, SegmentKind, WaitedFor, divide
from fencepost.states import WAITING, State

BEGIN = datetime(2026, 11, 30, 16, 53, 20, tzinfo=UTC)
MOMENTS = st.integers(0, 10**9).map(lambda us: BEGIN + timedelta(microseconds=us))


def test_every_state_has_its_rules() -> None:
    assert {rule.state for rule in RULES} == set(State)
    assert set(SegmentKind) - {rule.kind for rule in RULES} == {
        SegmentKind.HELD,  # what a wait becomes when the subscription was paused
        SegmentKind.FENCED,  # a worker's time, not the delivery's
    }
    for state in State:
        parts = [rule.part for rule in RULES if rule.state is state]
        assert parts == ([Part.UNTIL_DUE, Part.SINCE_DUE] if state in WAITING else [Part.WHOLE])


@given(
    state=st.sampled_from(State),
    end=MOMENTS,
    due=st.none() | MOMENTS,
    waited_for=st.none() | st.sampled_from(WaitedFor),
)
def test_the_parts_follow_each_other_and_fill_the_time(
    state: State, end: datetime, due: datetime | None, waited_for: WaitedFor | None
) -> None:
    found = divide(state, begin=BEGIN, end=end, due=due, waited_for=waited_for)
    assert (found[0].begin, found[-1].end) == (BEGIN, end)
    for before, after in pairwise(found):
        assert before.end == after.begin
    for span in found:
        assert span.begin <= span.end
        slept = span.kind is SegmentKind.SLEEPING
        assert slept == (state in WAITING and due is not None and span.begin < due)
        if span.kind is SegmentKind.HELD:
            assert waited_for is WaitedFor.PAUSED


@pytest.mark.parametrize(
    ("due_after", "end_after", "kinds"),
    [
        (None, 10, ["waiting"]),
        (0, 10, ["waiting"]),
        (4, 10, ["sleeping", "waiting"]),
        (10, 10, ["sleeping", "waiting"]),
        (11, 10, ["sleeping"]),
    ],
)
def test_a_wait_begins_when_it_falls_due(
    due_after: int | None, end_after: int, kinds: list[str]
) -> None:
    def later(seconds: int) -> datetime:
        return BEGIN + timedelta(seconds=seconds)

    due = None if due_after is None else later(due_after)
    for waited_for in (None, WaitedFor.PAUSED):
        found = divide(
            State.RETRIED, begin=BEGIN, end=later(end_after), due=due, waited_for=waited_for
        )
        wait = "held" if waited_for else "waiting"
        assert [one.kind for one in found] == [wait if k == "waiting" else k for k in kinds]


def test_a_clock_that_went_backwards_leaves_one_stretch() -> None:
    end = BEGIN - timedelta(seconds=1)
    found = divide(State.LEASED, begin=BEGIN, end=end, due=None, waited_for=None)
    assert found == ((SegmentKind.PREPARING, BEGIN, end),)
    assert Rule(State.LEASED, Part.WHOLE, SegmentKind.PREPARING) in RULES
