"""Threads that perform calls: as few as get them done, and all there can be when calls hang."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from worker.transport.deadlines import SocketCall

FEW: Final = 3
"""Threads that are let in at once; each more makes all wait for the interpreter's lock."""
LOOK_SECONDS: Final = 0.001
"""Between two looks at what waits, while anything does."""
LATE_SECONDS: Final = 0.0005
"""A look that comes so much too late had to wait for its turn, as the threads have to: more of
them would only wait as well."""


def change_of(at_work: int, *, has_ended: bool, is_late: bool) -> int:
    """Say how many threads more there should be at work while calls wait, or how many fewer.

    Args:
        at_work: how many there are.
        has_ended: whether any call has ended since the last look.
        is_late: whether this look had to wait for its turn.
    """
    if has_ended and is_late:
        return -1 if at_work > FEW else 0
    return 1 if has_ended or is_late else max(1, at_work)


class Crew:
    """Performs calls, each in one of its threads; these start when needed, and stay.

    A few threads are let in at once. When calls wait still, a foreman looks on: while the
    processor has room, it lets one more thread in with each look, and twice as many as there are
    when no call has ended since the look before. So a few threads serve receivers that answer at
    once, and a crowd of receivers that hang has all threads within a few looks. While the
    processor is what is short, one thread goes to rest with each look.

    Args:
        perform: performs a call; never raises.
        refuse: answers for a call when not even one thread can be started.
        size: how many threads there can be.
    """

    def __init__(
        self,
        perform: Callable[[SocketCall], None],
        refuse: Callable[[SocketCall], None],
        *,
        size: int,
    ) -> None:
        self._perform = perform
        self._refuse = refuse
        self._size = size
        self._lock = threading.Lock()
        self._waiting: deque[SocketCall] = deque()
        self._threads: list[threading.Thread] = []
        # What each resting thread waits for. The last to rest is the first to be let in again:
        # what it needs is in the processor's caches still.
        self._resting: list[threading.Lock] = []
        self._ended = 0
        self._is_one_too_many = False
        self._is_closed = False
        self._is_looking = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self._foreman = threading.Thread(target=self._oversee, name="foreman", daemon=True)
        self._foreman.start()

    def put(self, call: SocketCall) -> bool:
        """Take a call in, without waiting; False: not any more."""
        with self._lock:
            if self._is_closed:
                return False
            self._waiting.append(call)
            if self._resting and self._at_work < FEW:
                self._resting.pop().release()
            else:
                self._ring()
            return True

    def close(self) -> None:
        """Let what was taken in be performed, and then all threads end."""
        with self._lock:
            self._is_closed = True
            self._ring()
        self._foreman.join()
        with self._lock:
            while self._resting:
                self._resting.pop().release()
        for thread in self._threads:
            thread.join()

    # the threads

    def _work(self) -> None:
        turn = threading.Lock()
        turn.acquire()
        while True:
            with self._lock:
                call = self._next()
                if call is None:
                    if self._is_closed:
                        return
                    self._resting.append(turn)
            if call is None:
                turn.acquire()
                continue
            self._perform(call)
            self._ended += 1  # roughly: what it is for is whether there were any

    def _next(self) -> SocketCall | None:
        if self._is_one_too_many and not self._is_closed:
            self._is_one_too_many = False
            return None
        return self._waiting.popleft() if self._waiting else None

    # the foreman

    def _oversee(self) -> None:
        while True:
            self._bell.acquire()
            stranded = self._begin_to_look()
            while self._is_looking:
                for call in stranded:
                    self._refuse(call)
                began = time.monotonic()
                self._bell.acquire(timeout=LOOK_SECONDS)  # nobody rings while it looks
                late = time.monotonic() - began - LOOK_SECONDS
                stranded = self._look(is_late=late > LATE_SECONDS)
            if self._is_closed:
                return

    def _begin_to_look(self) -> list[SocketCall]:
        with self._lock:
            self._ended = 0
            return self._let_in(FEW - self._at_work)

    def _look(self, *, is_late: bool) -> list[SocketCall]:
        """Let threads in, or send one to rest; give the calls for which there is no thread."""
        with self._lock:
            self._is_looking = bool(self._waiting)
            change = change_of(self._at_work, has_ended=self._ended > 0, is_late=is_late)
            self._ended = 0
            self._is_one_too_many = self._is_looking and change < 0
            return self._let_in(change) if self._is_looking else []

    def _let_in(self, count: int) -> list[SocketCall]:
        for _ in range(min(count, len(self._waiting))):
            if self._resting:
                self._resting.pop().release()
            elif len(self._threads) == self._size or not self._hire():
                break
        if self._threads:
            return []
        stranded = list(self._waiting)
        self._waiting.clear()
        return stranded

    def _hire(self) -> bool:
        thread = threading.Thread(target=self._work, name=f"send {len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # can't start new thread: those there are will do
            return False
        self._threads.append(thread)
        return True

    @property
    def _at_work(self) -> int:
        return len(self._threads) - len(self._resting)

    def _ring(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._bell.release()
