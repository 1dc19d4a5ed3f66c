"""What is laid down one by one is taken together, and nobody is kept waiting for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from worker.tray import Tray

LONG = 10.0


def meanwhile(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def take(tray: Tray[int], most: int = 100) -> tuple[list[int], bool]:
    """Take a batch; say whether it came without waiting for long."""
    began = time.monotonic()
    return tray.take(most=most, within=LONG), time.monotonic() - began < LONG / 2


def test_what_cannot_wait_is_taken_at_once_with_all_that_lies_there() -> None:
    tray = Tray[int](enough=10, linger=LONG)
    tray.put(1, can_wait=True)
    tray.put(2, can_wait=False)
    tray.put(3, can_wait=True)
    assert take(tray) == ([1, 2, 3], True)


def test_what_can_wait_is_joined_by_others_until_they_are_enough() -> None:
    tray = Tray[int](enough=3, linger=LONG)
    tray.put(1, can_wait=True)
    others = [meanwhile(partial(tray.put, number, can_wait=True)) for number in (2, 2)]
    batch, was_prompt = take(tray)
    for other in others:
        other.join()
    assert (batch, was_prompt) == ([1, 2, 2], True)


def test_it_is_taken_at_once_when_one_comes_that_cannot_wait() -> None:
    tray = Tray[int](enough=100, linger=LONG)
    tray.put(1, can_wait=True)
    other = meanwhile(lambda: tray.put(2, can_wait=False))
    batch, was_prompt = take(tray)
    other.join()
    assert (batch, was_prompt) == ([1, 2], True)


def test_it_waits_for_others_no_longer_than_it_may() -> None:
    tray = Tray[int](enough=100, linger=0.01)
    tray.put(1, can_wait=True)
    assert take(tray) == ([1], True)


def test_the_first_one_wakes_whoever_waits_with_empty_hands() -> None:
    tray = Tray[int](enough=100, linger=0.01)
    first = meanwhile(lambda: tray.put(1, can_wait=True))
    assert take(tray) == ([1], True)
    first.join()


def test_nothing_is_taken_when_nothing_comes() -> None:
    assert Tray[int]().take(most=5, within=0) == []


def test_a_batch_has_a_largest_size_and_what_is_left_comes_next() -> None:
    tray = Tray[int](enough=2)
    for number in range(5):
        tray.put(number, can_wait=True)
    assert [tray.take(most=2, within=0) for _ in range(3)] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("can_wait", [True, False])
def test_none_is_lost_and_none_comes_twice_however_many_lay_them_down(*, can_wait: bool) -> None:
    tray, each = Tray[int](enough=50, linger=0.001), 2000

    def lay(first: int) -> None:
        for number in range(first, first + each):
            tray.put(number, can_wait=can_wait)

    threads = [threading.Thread(target=lay, args=(place * each,)) for place in range(3)]
    for thread in threads:
        thread.start()
    taken: list[int] = []
    while len(taken) < 3 * each:
        batch, was_prompt = take(tray)
        assert batch
        assert was_prompt
        taken += batch
    assert sorted(taken) == list(range(3 * each))
    for place in range(3):  # in the order in which each laid them down
        own = [number for number in taken if number // each == place]
        assert own == sorted(own)


def test_a_ring_for_what_was_taken_already_wakes_nobody() -> None:
    tray = Tray[int](enough=2, linger=LONG)
    tray.put(1, can_wait=True)
    other = threading.Timer(0.05, partial(tray.put, 2, can_wait=True))
    other.start()  # it rings while the first one is made to wait
    assert take(tray) == ([1, 2], True)
    other.join()
    began = time.monotonic()
    assert tray.take(most=9, within=0.05) == []
    assert time.monotonic() - began >= 0.05
