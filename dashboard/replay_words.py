"""How long a bulk replay takes, in words."""

from __future__ import annotations

from datetime import datetime

from dashboard.presenters import about
from fencepost.records import Replay


def estimate(longest: int, rate: float | None) -> str:
    """Say how long requeueing takes.

    Args:
        longest: deliveries of the subscription with the most of them.
        rate: per second, to each subscription; None: as fast as it goes.
    """
    return "at once, sent as fast as receivers answer" if rate is None else about(longest / rate)


def time_left(found: Replay, longest: int, now: datetime) -> str | None:
    """Say how long requeueing goes on; None: nobody can tell.

    Args:
        found: the replay.
        longest: what of any subscription is still to be requeued.
        now: the database's clock.
    """
    if found.state not in ("RUNNING", "PAUSED") or not found.remaining:
        return None
    if found.rate_per_second is not None:
        return about(longest / found.rate_per_second)
    done = found.requeued + found.skipped
    if found.state == "PAUSED" or found.started_at is None or not done:
        return None
    return about((now - found.started_at).total_seconds() * found.remaining / done)
