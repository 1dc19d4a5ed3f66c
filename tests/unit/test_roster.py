"""What a process holds decides what it claims."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from fencepost.model import Lease
from fencepost.store.leases import FIRST, Claimed, Claims
from worker.roster import BUSY, PRESSED_SECONDS, Roster

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def make(subscription: UUID | None = None, *, is_suspect: bool = False) -> Claimed:
    lease = Lease(uuid4(), "w", 1)
    return Claimed(lease, uuid4(), "a", subscription or uuid4(), 0, 0, 5, None, is_suspect)


def claims(*claimed: Claimed, now: datetime = NOW) -> Claims:
    return Claims(claimed, now, visited=1, cursor=FIRST, kept_back={}, ready_in=None, due_in=None)


def roster(now: float = 0.0) -> Roster:
    return Roster(concurrency=4, share=2, backlog=3, clock=lambda: now)


def test_a_new_roster_has_all_its_slots() -> None:
    room = roster().room(200)
    assert (room.slots, room.share, room.may_take_suspect) == (4, 2, True)


def test_no_more_is_offered_than_is_asked_for() -> None:
    assert roster().room(3).slots == 3


def test_what_is_taken_fills_slots_and_shares_and_says_since_when() -> None:
    board, sub = roster(), uuid4()
    board.take(claims(make(sub), make(sub), make()), until=9)
    room = board.room(200)
    assert (room.slots, room.held[sub], room.slots_full_at) == (1, 2, None)
    assert room.waited == {sub: ("slot", NOW)}
    board.take(claims(make()), until=9)
    assert board.room(200).slots_full_at == NOW


def test_a_slot_comes_free_when_the_answer_is_there_and_the_row_when_it_is_written() -> None:
    board, one = roster(), make()
    board.take(claims(one), until=9)
    assert board.hand_over(one.lease) is False
    assert board.room(200).slots == 4
    assert board.to_renew() == []
    assert not board.wait_empty(0)
    board.drop([one.lease])
    assert board.wait_empty(0)


def test_results_that_pile_up_stop_the_claims() -> None:
    board = roster()
    some = [make() for _ in range(4)]
    board.take(claims(*some), until=9)
    for one in some:
        board.hand_over(one.lease)
    assert board.room(200).slots == 0
    board.drop([some[0].lease])
    assert board.room(200).slots == 4


def test_one_suspect_at_a_time_until_it_is_settled() -> None:
    board, one = roster(), make(is_suspect=True)
    board.take(claims(one), until=9)
    board.hand_over(one.lease)
    assert not board.room(200).may_take_suspect
    board.drop([one.lease])
    assert board.room(200).may_take_suspect


def test_a_lost_lease_is_named_once_and_not_renewed() -> None:
    board, one, other = roster(), make(), make()
    board.take(claims(one, other), until=9)
    assert board.lose([one.lease]) == [one.lease]
    assert board.lose([one.lease]) == []
    assert board.to_renew() == [other.lease]
    assert board.hand_over(one.lease) is True


def test_nothing_is_renewed_past_its_own_deadline() -> None:
    board, one = roster(now=9.5), make()
    board.take(claims(one), until=9)
    assert board.to_renew() == []


def test_a_request_is_renewed_until_its_own_deadline_not_the_claims() -> None:
    board, one = roster(now=9.5), make()
    board.take(claims(one), until=9)
    board.extend(one.lease, until=20)
    assert board.to_renew() == [one.lease]


def test_it_forgets_who_was_full_long_ago() -> None:
    board, sub = roster(), uuid4()
    some = [make(sub), make(sub)]
    board.take(claims(*some), until=9)
    board.drop(one.lease for one in some)
    board.take(claims(make(), now=NOW + timedelta(minutes=9)), until=9)
    assert board.room(200).waited == {sub: ("slot", NOW)}
    board.take(claims(make(), now=NOW + timedelta(minutes=11)), until=9)
    assert board.room(200).waited == {}


@pytest.mark.parametrize(
    ("concurrency", "share", "at_most"), [(1, 32, 1), (4, 32, 3), (16, 32, 12), (64, 32, 32)]
)
def test_no_subscription_may_hold_all_slots(concurrency: int, share: int, at_most: int) -> None:
    board = Roster(concurrency=concurrency, share=share, backlog=9, clock=lambda: 0.0)
    sub = uuid4()
    for _ in range(100):
        board.learn(sub, failed=False, timed_out=False)
    room = board.room(200)
    assert room.shares.get(sub, room.share) == at_most


def busy_roster(now: list[float]) -> tuple[Roster, list[Claimed]]:
    board = Roster(concurrency=100, share=100, backlog=100, clock=lambda: now[0])
    held = [make() for _ in range(BUSY)]
    board.take(claims(*held), until=9)
    return board, held


def test_an_outcome_can_wait_for_others_while_much_is_in_flight() -> None:
    board, held = busy_roster([0.0])
    assert board.can_wait(held[0].lease)
    board.hand_over(held[1].lease)
    assert not board.can_wait(held[0].lease)
    assert board.in_flight == BUSY - 1


def test_an_outcome_that_is_unknown_here_keeps_nothing_waiting() -> None:
    board, _ = busy_roster([0.0])
    assert not board.can_wait(make().lease)


@pytest.mark.parametrize(
    ("reason", "can_wait"), [("order", False), ("slot", False), ("rate", True)]
)
def test_an_outcome_cannot_wait_where_a_limit_or_an_order_waits_for_it(
    reason: str, *, can_wait: bool
) -> None:
    now = [0.0]
    board, held = busy_roster(now)
    kept_back = {held[0].subscription_id: reason}
    board.take(replace(claims(), kept_back=kept_back), until=9)
    assert board.can_wait(held[0].lease) is can_wait
    assert board.can_wait(held[1].lease)
    now[0] = PRESSED_SECONDS
    board.take(claims(), until=9)
    assert board.can_wait(held[0].lease)
