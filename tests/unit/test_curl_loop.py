"""The curl transport's loop hears what other threads post, in whatever moment they do."""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from worker.transport.curl_loop import CurlLoop

LIMIT = 5.0

Posts = deque[Callable[[], None]]


@pytest.fixture
def before_reading() -> Posts:
    """What other threads do in the moment before the loop reads the bell: one thing each time."""
    return deque()


@pytest.fixture
def while_waiting() -> Posts:
    """What they do while it waits, once it has looked whether there is anything to do."""
    return deque()


@pytest.fixture
def loop(
    before_reading: Posts, while_waiting: Posts, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CurlLoop]:
    class Ear(socket.socket):
        def recv(self, size: int, flags: int = 0) -> bytes:
            if before_reading:
                before_reading.popleft()()
            return super().recv(size, flags)

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if while_waiting:
                while_waiting.popleft()()
            return super().select(timeout)

    bell, ear = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: (bell, Ear(fileno=ear.detach())))
    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    made = CurlLoop()
    yield made
    made.close()


def turn(loop: CurlLoop) -> bool:
    """Take one turn; say whether anything ended its wait."""
    until = time.monotonic() + LIMIT
    loop.turn(until)
    return time.monotonic() < until


def test_what_is_posted_while_it_waits_ends_the_wait(loop: CurlLoop, while_waiting: Posts) -> None:
    done: list[int] = []
    while_waiting.append(lambda: loop.post(lambda: done.append(1)))
    assert turn(loop)
    assert done == [1]


def test_a_post_in_the_moment_before_the_bell_is_read_does_not_silence_it(
    loop: CurlLoop, before_reading: Posts, while_waiting: Posts
) -> None:
    done: list[int] = []
    while_waiting.append(lambda: loop.post(lambda: done.append(1)))
    before_reading.append(lambda: loop.post(lambda: done.append(2)))
    assert turn(loop)
    assert done == [1, 2]
    while_waiting.append(lambda: loop.post(lambda: done.append(3)))
    assert turn(loop)
    assert done == [1, 2, 3]
