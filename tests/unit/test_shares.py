"""A receiver that answers gets more of a worker; one that fails or hangs slows only itself."""

from __future__ import annotations

from uuid import UUID, uuid4

from worker import shares
from worker.shares import Shares


def test_a_stranger_begins_with_two() -> None:
    board = Shares(most=32, concurrency=64)
    assert board.first == 2
    assert board.of(uuid4()) == 2
    assert board.all({}) == {}


def test_each_success_adds_one_up_to_the_most() -> None:
    board, sub = Shares(most=5, concurrency=64), uuid4()
    seen = []
    for _ in range(5):
        board.succeeded(sub)
        seen.append(board.of(sub))
    assert seen == [3, 4, 5, 5, 5]


def test_each_failure_halves_but_leaves_one() -> None:
    board, sub = Shares(most=32, concurrency=64), uuid4()
    for _ in range(14):
        board.succeeded(sub)
    seen = []
    for _ in range(6):
        board.failed(sub, timed_out=False)
        seen.append(board.of(sub))
    assert seen == [8, 4, 2, 1, 1, 1]


def test_those_that_hang_hold_half_of_the_slots_together() -> None:
    board = Shares(most=32, concurrency=16)
    slow = [uuid4() for _ in range(4)]
    for sub in slow:
        for _ in range(30):
            board.succeeded(sub)
        board.failed(sub, timed_out=True)
    held: dict[UUID, int] = {}
    for _ in range(5):
        for sub, share in board.all(held).items():
            held[sub] = max(held.get(sub, 0), share)
    assert sum(held.values()) == 8


def test_one_success_ends_the_suspicion_of_hanging() -> None:
    board, sub = Shares(most=32, concurrency=2), uuid4()
    for _ in range(10):
        board.succeeded(sub)
    board.failed(sub, timed_out=True)
    assert board.all({sub: 1}) == {sub: 1}
    board.succeeded(sub)
    assert board.all({sub: 1}) == {sub: 7}


def test_memory_is_bounded() -> None:
    board, first = Shares(most=32, concurrency=64), uuid4()
    board.succeeded(first)
    for _ in range(shares.MOST_REMEMBERED):
        board.succeeded(uuid4())
    assert board.of(first) == 2
    assert len(board.all({})) == shares.MOST_REMEMBERED
