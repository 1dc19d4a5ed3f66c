"""A short memory of hosts that could not be looked up."""

from __future__ import annotations

import time
from typing import Final

from fencepost.errors import FencepostError

_MAX_REMEMBERED: Final = 4096


class RecentFailures:
    """What went wrong with hosts lately; not safe against threads.

    Args:
        seconds: for which a failure is remembered.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures: dict[str, tuple[float, FencepostError]] = {}

    def note(self, host: str, failure: FencepostError) -> None:
        """Remember a failure, from now."""
        self._failures.pop(host, None)
        self._failures[host] = (time.monotonic() + self._seconds, failure)
        if len(self._failures) > _MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def forget(self, host: str) -> None:
        """Think no ill of a host any more."""
        self._failures.pop(host, None)

    def get(self, host: str) -> FencepostError | None:
        """Give the failure that is still remembered; None when there is none."""
        until, failure = self._failures.get(host, (0.0, None))
        return failure if time.monotonic() < until else None
