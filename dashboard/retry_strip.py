"""The attempts of a budget on a strip: how long after the one before each comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from fencepost.model import Subscription
from fencepost.retry import PRESETS, RetryPolicy

_MOST_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt.

    Attributes:
        number: from 1.
        after: the longest wait before it; half of it is the shortest. None for the first.
        at: how long after the first attempt it comes at the latest.
    """

    number: int
    after: timedelta | None
    at: timedelta


@dataclass(frozen=True, slots=True)
class Strip:
    """All attempts of a budget.

    Attributes:
        tries: the first of them.
        left_out: how many more there are.
        ends_after: how long after the first attempt the last one comes, at the latest.
        horizon: none is made later than this after the first; None: whenever it is due.
    """

    tries: Sequence[Try]
    left_out: int
    ends_after: timedelta
    horizon: timedelta | None


def draw_strip(subscription: Subscription) -> Strip:
    """Lay a subscription's attempts out, as long as no receiver asks for a longer wait."""
    policy = RetryPolicy(
        max_attempts=subscription.max_attempts,
        base=timedelta(seconds=subscription.backoff_base_seconds),
        cap=timedelta(seconds=subscription.backoff_cap_seconds),
        preset=subscription.retry_preset,
    )
    horizon = PRESETS[policy.preset].horizon if policy.preset else None
    tries, at = [Try(1, None, timedelta(0))], timedelta(0)
    for number in range(2, policy.max_attempts + 1):
        step = policy.step(number - 1)
        at += step
        tries.append(Try(number, step, at))
    ends = at if horizon is None else min(at, horizon)
    return Strip(tries[:_MOST_SHOWN], max(0, len(tries) - _MOST_SHOWN), ends, horizon)
