"""The values of a filter's parameters, read strictly: a fault names its parameter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from fencepost.errors import InvalidInputError
from fencepost.globs import check_globs
from fencepost.model import ErrorClass
from fencepost.states import Phase, State

MOST_ATTEMPTS: Final = 2**31 - 1
LONGEST_TEXT: Final = 200

Value = TypeVar("Value")

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_AGO: Final = re.compile(r"-([0-9]{1,6})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LONGEST_AGO: Final = timedelta(days=3650)
_FIRST_YEAR: Final = 1970
_STATUS: Final = re.compile(r"[1-9][0-9]{2}")
_HUNDRED: Final = re.compile(r"([1-9])xx")
_RANGE: Final = re.compile(r"([1-9][0-9]{2})-([1-9][0-9]{2})")


@dataclass(frozen=True, slots=True, order=True)
class Codes:
    """A range of status codes, both ends in it; 0 to 0 stands for "no answer came"."""

    low: int
    high: int

    def __str__(self) -> str:
        if self == NO_ANSWER:
            return "none"
        if self.low == self.high:
            return str(self.low)
        if self.low % 100 == 0 and self.high == self.low + 99:
            return f"{self.low // 100}xx"
        return f"{self.low}-{self.high}"


NO_ANSWER: Final = Codes(0, 0)


def parse_id(text: str) -> UUID | None:
    """Read a UUID in its usual form, and in no other; None for anything else."""
    return UUID(text) if _UUID.fullmatch(text) else None


def ids(name: str, texts: Iterable[str]) -> tuple[UUID, ...]:
    """Read ids."""
    return _each(texts, lambda text: _known(name, parse_id(text), "a UUID"))


def states(name: str, texts: Iterable[str]) -> tuple[State, ...]:
    """Read states, written in lower case."""
    known = {state.lower(): state for state in State}
    wanted = f"one of {' '.join(known)}"
    return _each(texts, lambda text: _known(name, known.get(text), wanted))


def phase(name: str, text: str | None) -> Phase | None:
    """Read a phase."""
    known = {item.value: item for item in Phase}
    return None if text is None else _known(name, known.get(text), f"one of {' '.join(known)}")


def error_classes(name: str, texts: Iterable[str]) -> tuple[ErrorClass, ...]:
    """Read error classes."""
    known = {item.value: item for item in ErrorClass}
    wanted = f"one of {' '.join(known)}"
    return _each(texts, lambda text: _known(name, known.get(text), wanted))


def types(name: str, texts: Sequence[str], *, most: int) -> tuple[str, ...]:
    """Read globs over event types."""
    return tuple(sorted(check_globs(texts, field=name, most=most)))


def codes(name: str, texts: Iterable[str]) -> tuple[Codes, ...]:
    """Read status codes: ``503``, ``5xx``, ``400-499``, ``none``."""
    wanted = "a status such as 503, 5xx or 400-499, or none"
    return _each(texts, lambda text: _known(name, _codes(text), wanted))


def _codes(text: str) -> Codes | None:
    if text == "none":
        return NO_ANSWER
    if _STATUS.fullmatch(text):
        return Codes(int(text), int(text))
    if hundred := _HUNDRED.fullmatch(text):
        return Codes(int(hundred[1]) * 100, int(hundred[1]) * 100 + 99)
    if (ends := _RANGE.fullmatch(text)) and ends[1] <= ends[2]:
        return Codes(int(ends[1]), int(ends[2]))
    return None


def moment(name: str, text: str | None) -> datetime | timedelta | None:
    """Read an ISO 8601 moment, in UTC where it has no offset, or a time ago such as ``-15m``."""
    if text is None:
        return None
    if ago := _AGO.fullmatch(text):
        found = timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if found <= _LONGEST_AGO:
            return found
    try:
        # An offset can push the first or last day of the calendar over its edge.
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        at = None
    if at is None or at.year < _FIRST_YEAR:
        raise InvalidInputError(
            name,
            f"{name} must be a moment such as 2026-11-30T16:55:00Z, or a time ago: -15m -24h -7d",
        )
    return at


def moment_texts(bound: datetime | timedelta | None) -> list[str]:
    """Write a bound as ``moment`` reads it; nothing for none."""
    if bound is None:
        return []
    if isinstance(bound, datetime):
        return [bound.astimezone(UTC).isoformat().replace("+00:00", "Z")]
    seconds = bound // timedelta(seconds=1)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % length == 0:
            return [f"-{seconds // length}{unit}"]
    return [f"-{seconds}s"]


def count(name: str, text: str | None) -> int | None:
    """Read a number of attempts."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MOST_ATTEMPTS):  # noqa: PLR2004
        raise InvalidInputError(name, f"{name} must be a whole number")
    return int(text)


def text(name: str, value: str | None) -> str | None:
    """Read text to look for, without the spaces around it."""
    if value is None:
        return None
    found = value.strip()
    if not found or len(found) > LONGEST_TEXT or not found.isprintable():
        raise InvalidInputError(name, f"{name} must be 1 to {LONGEST_TEXT} printable characters")
    return found


def flag(name: str, text: str | None) -> bool | None:
    """Read ``0`` or ``1``."""
    return None if text is None else _known(name, {"0": False, "1": True}.get(text), "0 or 1")


def _known(name: str, found: Value | None, wanted: str) -> Value:
    if found is None:
        raise InvalidInputError(name, f"{name} must be {wanted}")
    return found


def _each(texts: Iterable[str], parse: Callable[[str], Value]) -> tuple[Value, ...]:
    """Parse each, drop repetitions, and sort: the same values make the same filter."""
    return tuple(sorted({parse(text) for text in texts}))  # type: ignore[type-var]
