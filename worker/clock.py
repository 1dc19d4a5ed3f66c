"""The local clock: for durations, never for the time of day, which is the database's."""

from __future__ import annotations

import time
from typing import Final

# It goes on while the machine sleeps, as leases do; elsewhere than on Linux, the best there is.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Give seconds that only rise."""
    return time.clock_gettime(_CLOCK)
