"""Threads that perform calls: enough of them at any time, never more than there may be."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from fencepost.model import Lease, Outgoing
from waiting import eventually
from worker.transport.crew import FEW, Crew, change_of
from worker.transport.deadlines import SocketCall


class Performing:
    """Performs calls for as long as they are held up, and counts."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.at_once = self.most_at_once = self.ended = 0
        self.threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def __call__(self, _: SocketCall) -> None:
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.threads.add(threading.current_thread())
        assert self.may_end.wait(20)
        with self._lock:
            self.at_once -= 1
            self.ended += 1

    def has_at_once(self, count: int) -> bool:
        return self.at_once == count

    def has_ended(self, count: int) -> bool:
        return self.ended == count


@contextmanager
def crew(performing: Callable[[SocketCall], None], size: int) -> Iterator[Crew]:
    made = Crew(performing, refused, size=size)
    try:
        yield made
    finally:
        made.close()


def refused(_: SocketCall) -> None:
    raise AssertionError("there are threads")


def call() -> SocketCall:
    outgoing = Outgoing(Lease(uuid.uuid4(), "worker", 1), "http://a.test/", (), b"")
    return SocketCall(outgoing, lambda *_: None)


def test_calls_that_hang_have_every_thread_within_milliseconds_and_no_more() -> None:
    performing = Performing()
    with crew(performing, 64) as made:
        began = time.monotonic()
        for _ in range(80):
            assert made.put(call())
        eventually(lambda: performing.at_once == 64)
        assert time.monotonic() - began < 1
        performing.may_end.set()
    assert (performing.ended, performing.most_at_once) == (80, 64)


def test_a_call_is_performed_while_all_others_hang() -> None:
    performing = Performing()
    with crew(performing, 64) as made:
        for number in range(1, 20):
            began = time.monotonic()
            made.put(call())
            eventually(partial(performing.has_at_once, number))
            assert time.monotonic() - began < 1
        performing.may_end.set()


def test_calls_one_after_another_share_a_thread_or_two() -> None:
    performing = Performing()
    performing.may_end.set()
    with crew(performing, 64) as made:
        for number in range(1, 20):
            made.put(call())
            eventually(partial(performing.has_ended, number))
        assert len(performing.threads) <= FEW


def test_a_thread_that_rested_is_let_in_again() -> None:
    performing = Performing()
    with crew(performing, 8) as made:
        for _ in range(8):
            made.put(call())
        eventually(lambda: performing.at_once == 8)
        performing.may_end.set()
        eventually(lambda: performing.ended == 8)
        performing.may_end.clear()
        for _ in range(8):
            made.put(call())
        eventually(lambda: performing.at_once == 8)
        assert len(performing.threads) == 8
        performing.may_end.set()


def test_closing_performs_what_waits_and_takes_no_more() -> None:
    performing = Performing()
    made = Crew(performing, refused, size=2)
    for _ in range(10):
        made.put(call())
    closing = threading.Thread(target=made.close)
    closing.start()
    performing.may_end.set()
    closing.join(10)
    assert performing.ended == 10
    assert not any(thread.is_alive() for thread in performing.threads)
    assert not made.put(call())
    assert performing.ended == 10


def test_many_callers_lose_no_call() -> None:
    performing = Performing()
    performing.may_end.set()

    def put_many() -> None:
        for _ in range(2000):
            made.put(call())

    with crew(performing, 16) as made:
        callers = [threading.Thread(target=put_many) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        eventually(lambda: performing.ended == 8000)
    assert performing.most_at_once <= 16


def test_threads_come_as_long_as_the_processor_has_room_for_them() -> None:
    assert change_of(8, has_ended=False, is_late=False) == 8  # receivers keep all of them waiting
    assert change_of(0, has_ended=False, is_late=False) == 1
    assert change_of(8, has_ended=True, is_late=False) == 1
    assert change_of(8, has_ended=False, is_late=True) == 1  # whatever the reason is
    assert change_of(8, has_ended=True, is_late=True) == -1  # they are in each other's way
    assert change_of(FEW, has_ended=True, is_late=True) == 0
