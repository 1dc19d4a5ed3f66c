"""When to try again: back-off with jitter, presets, Retry-After and the end of a budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from types import MappingProxyType
from typing import Final

DEFAULT_MAX_ATTEMPTS: Final = 5
DEFAULT_BASE: Final = timedelta(seconds=15)
DEFAULT_CAP: Final = timedelta(hours=1)
MAX_RETRY_AFTER: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Preset:
    """A retry policy with a name. Source: CONTRACT section 3."""

    max_attempts: int
    delays: tuple[timedelta, ...]
    """After the first, second … attempt; the last one stays for all that follow."""
    horizon: timedelta | None = None
    """No attempt later than this after the first one of the budget."""


def _doubling(base: timedelta, cap: timedelta) -> tuple[timedelta, ...]:
    delays = [base]
    while delays[-1] < cap:
        delays.append(min(cap, delays[-1] * 2))
    return tuple(delays)


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "standard-webhooks": Preset(
            max_attempts=10,
            delays=(
                timedelta(seconds=5),
                timedelta(minutes=5),
                timedelta(minutes=30),
                *(timedelta(hours=hours) for hours in (2, 5, 10, 14, 20, 24)),
            ),
        ),
        # Were every delay the shortest that jitter allows, the 24th attempt would be too late:
        # here it is the horizon that ends a budget.
        "three-days": Preset(
            max_attempts=24,
            delays=_doubling(timedelta(seconds=15), timedelta(hours=12)),
            horizon=timedelta(hours=72),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after how long, one subscription's deliveries are tried again."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    base: timedelta = DEFAULT_BASE
    cap: timedelta = DEFAULT_CAP
    preset: str | None = None
    """A name in ``PRESETS``; it replaces base and cap."""

    def delay(self, attempt_of_budget: int, random: Random) -> timedelta:
        """Draw the wait after an attempt: at least half of the step, at most all of it.

        Args:
            attempt_of_budget: which attempt of the budget has just failed, from 1.
            random: where the jitter comes from.
        """
        step = self.step(attempt_of_budget)
        return step * random.uniform(0.5, 1.0)

    def step(self, attempt_of_budget: int) -> timedelta:
        """Give the wait after an attempt before jitter: exponential up to a cap."""
        if attempt_of_budget < 1:
            raise ValueError("attempts are counted from 1")
        if self.preset is not None:
            delays = PRESETS[self.preset].delays
            return delays[min(attempt_of_budget, len(delays)) - 1]
        # Compared before it is computed: 2 ** 999 does not fit a timedelta.
        doublings = attempt_of_budget - 1
        if doublings >= (self.cap // max(self.base, timedelta.resolution)).bit_length():
            return self.cap
        return self.base * (1 << doublings)

    def next_attempt(
        self,
        attempt_of_budget: int,
        first_attempt_at: datetime,
        now: datetime,
        random: Random,
        floor: timedelta | None = None,
    ) -> timedelta | None:
        """Say how long to wait before the next attempt; None when the budget is spent.

        Args:
            attempt_of_budget: which attempt of the budget has just failed, from 1.
            first_attempt_at: of this budget, aware.
            now: when the attempt ended, aware.
            random: where the jitter comes from.
            floor: what the receiver asked for (``parse_retry_after``).
        """
        if attempt_of_budget >= self.max_attempts:
            return None
        wait = max(self.delay(attempt_of_budget, random), floor or timedelta(0))
        horizon = None if self.preset is None else PRESETS[self.preset].horizon
        if horizon is not None and now + wait > first_attempt_at + horizon:
            return None
        return wait


_SECONDS: Final = re.compile(r"[0-9]+")
_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_MONTH: Final = r"(?P<month>[a-z]{3})"
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# RFC 9110, section 5.6.7: IMF-fixdate, and the two forms that a recipient still has to know.
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"[a-z]{{3}} {_MONTH} (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Read a ``Retry-After`` header: seconds or an HTTP-date, at most 24 hours.

    None for whatever cannot be read or lies in the past; it raises nothing, whatever a
    receiver sends.

    Args:
        value: the header's value; two headers joined with a comma are unreadable.
        now: what a date is measured from, aware.
    """
    text = (value or "").strip(" \t")
    if _SECONDS.fullmatch(text):
        digits = text.lstrip("0") or "0"
        # More digits than the limit has are too many seconds, and int() refuses very many.
        too_long = len(digits) > len(str(int(MAX_RETRY_AFTER.total_seconds())))
        return MAX_RETRY_AFTER if too_long else min(MAX_RETRY_AFTER, timedelta(seconds=int(digits)))
    moment = _parse_http_date(text, now)
    if moment is None or moment <= now:
        return None
    return min(MAX_RETRY_AFTER, moment - now)


def _parse_http_date(text: str, now: datetime) -> datetime | None:
    found = next((match for date in _DATES if (match := date.fullmatch(text))), None)
    if found is None or found["month"].lower() not in _MONTHS:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:  # noqa: PLR2004 - of RFC 850's form
        latest = now.year + 50
        year = latest - (latest - year) % 100
    try:
        return datetime(
            year,
            _MONTHS.index(found["month"].lower()) + 1,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            int(found["second"]),
            tzinfo=UTC,
        )
    except ValueError:  # 31 February, 25:61
        return None
