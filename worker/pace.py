"""How much a worker gets done, and how long receivers take: over the last minutes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from fencepost.histograms import Histogram

SPAN_SECONDS: Final = 300.0
"""What is older counts no more."""

_SLICE_SECONDS: Final = 10.0


class Pace:
    """Count the requests of the last five minutes; memory does not grow with their number.

    Args:
        clock: seconds that only rise.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._slices: deque[tuple[float, Histogram]] = deque()
        self._lock = threading.Lock()

    def note(self, latencies_ms: Iterable[float]) -> None:
        """Count requests that have ended, by how long each took."""
        more, now = Histogram.of(latencies_ms), self._clock()
        with self._lock:
            if self._slices and now - self._slices[-1][0] < _SLICE_SECONDS:
                since, known = self._slices.pop()
                self._slices.append((since, known + more))
            else:
                self._slices.append((now, more))
            self._forget(now)

    def read(self) -> tuple[float, float | None]:
        """Give requests per minute, and the milliseconds that 95 % of them did not exceed.

        In its first five minutes a worker is measured by the time it has had.
        """
        with self._lock:
            now = self._clock()
            self._forget(now)
            found = sum((each for _, each in self._slices), start=Histogram())
        seconds = min(SPAN_SECONDS, now - self._began)
        return (found.total * 60 / seconds if seconds > 0 else 0.0), found.percentile(0.95)

    def _forget(self, now: float) -> None:
        while self._slices and now - self._slices[0][0] >= SPAN_SECONDS:
            self._slices.popleft()
