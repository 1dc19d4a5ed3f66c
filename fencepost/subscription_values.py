"""The values of a subscription's fields, each judged by itself."""

from __future__ import annotations

import math
from typing import Final

from fencepost import retry
from fencepost.errors import InvalidInputError
from fencepost.globs import check_globs

MOST_ATTEMPTS: Final = 1000

_MOST_EVENT_TYPES: Final = 200
_MOST_STATUSES: Final = 100
_LONGEST_WAIT: Final = 7 * 86_400.0

MOST_IN_FLIGHT: Final = 10_000
LOWEST_RATE: Final = 0.001
HIGHEST_RATE: Final = 10_000


def event_types(value: object) -> tuple[str, ...]:
    """Accept a list of globs over event types."""
    if not isinstance(value, list | tuple) or not value:
        raise InvalidInputError("event_types", "event_types must be a list of at least one")
    return check_globs(value, field="event_types", most=_MOST_EVENT_TYPES)


def preset(value: object) -> str | None:
    """Accept the name of a retry preset, or none."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in retry.PRESETS:
        choices = ", ".join(retry.PRESETS)
        raise InvalidInputError("retry_preset", f"retry_preset must be null or one of {choices}")
    return value


def seconds(name: str, value: object) -> float:
    """Accept a time of at most a week."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 < value <= _LONGEST_WAIT
    ):
        raise InvalidInputError(
            name, f"{name} must be a number above 0 and at most {_LONGEST_WAIT:.0f}"
        )
    return float(value)


def statuses(name: str, value: object) -> tuple[int, ...]:
    """Accept a list of status codes, and give it sorted."""
    if not isinstance(value, list | tuple) or len(value) > _MOST_STATUSES:
        raise InvalidInputError(name, f"{name} must be a list of at most {_MOST_STATUSES} numbers")
    for status in value:
        # A 2xx is delivered and a 1xx is no answer: no list makes them anything else.
        if isinstance(status, bool) or not isinstance(status, int) or not 300 <= status <= 599:  # noqa: PLR2004
            raise InvalidInputError(name, f"{name}: each must be a status code from 300 to 599")
    return tuple(sorted(set(value)))


def attempts(value: object) -> int:
    """Accept a number of attempts."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ATTEMPTS:
        raise InvalidInputError(
            "max_attempts", f"max_attempts must be a whole number from 1 to {MOST_ATTEMPTS}"
        )
    return value


def in_flight(value: object) -> int | None:
    """Accept how many requests may be open at once, over all workers; None: no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_IN_FLIGHT:
        raise InvalidInputError(
            "max_in_flight", f"max_in_flight must be null or from 1 to {MOST_IN_FLIGHT}"
        )
    return value


def rate(value: object) -> float | None:
    """Accept how many requests may begin in a second, over all workers; None: no limit."""
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not LOWEST_RATE <= value <= HIGHEST_RATE
    ):
        raise InvalidInputError(
            "rate_limit_per_second",
            f"rate_limit_per_second must be null or from {LOWEST_RATE} to {HIGHEST_RATE}",
        )
    return float(value)


def flag(name: str, value: object) -> bool:
    """Accept true or false."""
    if not isinstance(value, bool):
        raise InvalidInputError(name, f"{name} must be true or false")
    return value
