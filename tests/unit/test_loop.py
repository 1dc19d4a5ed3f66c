"""A loop outlives its step's faults, and ends when it is told to."""

from __future__ import annotations

import random
import threading

from fencepost.errors import DatabaseUnavailableError
from worker.loop import LONGEST_PAUSE, Loop, pause_after

LIMIT = 10.0


def test_it_calls_again_at_once_while_there_is_more() -> None:
    calls, done = [], threading.Event()

    def step() -> float:
        calls.append(1)
        if len(calls) == 100:
            done.set()
        return 0 if len(calls) < 100 else 60

    loop = Loop("test", step, chance=random.Random(1))
    loop.start()
    assert done.wait(LIMIT)
    loop.stop()
    assert loop.join(LIMIT)
    assert len(calls) == 100


def test_a_wake_up_ends_a_wait_even_when_it_came_during_the_step() -> None:
    calls, second = [], threading.Event()

    def step() -> float:
        calls.append(1)
        if len(calls) == 1:
            loop.wake()
        else:
            second.set()
        return 3600

    loop = Loop("test", step, chance=random.Random(1))
    loop.start()
    assert second.wait(LIMIT)
    loop.stop()
    assert loop.join(LIMIT)


def test_it_outlives_an_outage_and_a_defect() -> None:
    faults = [DatabaseUnavailableError("away"), ZeroDivisionError("ours")]
    recovered = threading.Event()

    def step() -> float:
        if faults:
            raise faults.pop()
        recovered.set()
        return 3600

    loop = Loop("test", step, chance=random.Random(1))
    loop.start()
    assert recovered.wait(LIMIT)
    loop.stop()
    assert loop.join(LIMIT)


def test_a_call_to_hurry_does_not_make_a_failing_loop_spin() -> None:
    calls, failed = [], threading.Event()

    def step() -> float:
        calls.append(1)
        failed.set()
        raise DatabaseUnavailableError("away")

    loop = Loop("test", step, chance=random.Random(1))
    loop.start()
    assert failed.wait(LIMIT)
    for _ in range(1000):
        loop.wake()
    loop.stop()
    assert loop.join(LIMIT)
    assert len(calls) <= 2


def test_pauses_grow_up_to_the_longest() -> None:
    pauses = [pause_after(failures, random.Random(1)) for failures in (1, 2, 3, 60)]
    assert pauses == sorted(pauses)
    assert LONGEST_PAUSE / 2 <= pauses[-1] <= LONGEST_PAUSE
    assert pause_after(60, random.Random(1), longest=0.5) <= 0.5
