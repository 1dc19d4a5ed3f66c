"""A tray on which many threads lay things, and from which one takes batches worth its while."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

ENOUGH = 200
"""A batch of so many is not waited for any longer: more are hardly cheaper for each."""

LINGER_SECONDS = 0.008
"""What a thing may lie there for others to join it."""

_T = TypeVar("_T")


class Tray(Generic[_T]):
    """Things that wait to be taken together.

    One thread takes. Those that lay things down wake it once for a batch, not once for each:
    that it is woken costs both more than what it does for one.

    Args:
        enough: how many are not made to wait for more.
        linger: seconds that the others are made to wait.
    """

    def __init__(self, *, enough: int = ENOUGH, linger: float = LINGER_SECONDS) -> None:
        self._enough = enough
        self._linger = linger
        self._things: deque[_T] = deque()
        self._is_urgent = False
        self._is_empty_handed = False
        self._bell = threading.Event()

    def put(self, thing: _T, *, can_wait: bool) -> None:
        """Lay one down; never blocks.

        Args:
            thing: to be taken in the order of coming.
            can_wait: nobody is kept waiting when it is taken a little later, with others.
        """
        self._things.append(thing)
        if not can_wait:
            self._is_urgent = True
        # Noted first and looked at then, here and by the taker: one of the two sees the other.
        if not can_wait or self._is_empty_handed or len(self._things) >= self._enough:
            self._bell.set()

    def take(self, *, most: int, within: float) -> list[_T]:
        """Take what is there, and wait a little for more of it where that keeps nobody waiting.

        Args:
            most: how many to take.
            within: seconds after which to go away with nothing.
        """
        self._is_empty_handed = True
        if not self._things:
            self._bell.clear()  # it may have rung for what was taken since
            if not self._things:
                self._bell.wait(within)
        self._is_empty_handed = False
        self._bell.clear()
        if self._things and not self._is_urgent and len(self._things) < self._enough:
            self._bell.wait(self._linger)
        self._is_urgent = False
        return [self._things.popleft() for _ in range(min(most, len(self._things)))]
