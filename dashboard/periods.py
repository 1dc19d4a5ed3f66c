"""The stretch of time that a page of figures shows, and the steps in which it draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from uuid import UUID

from flask import g, request

from fencepost import filter_values as read
from fencepost.errors import InvalidInputError
from fencepost.figures import MEASURES, TOTAL, Window

DEFAULT: Final = timedelta(hours=1)
CHOICES: Final[Mapping[str, str]] = {
    "-15m": "last 15 minutes",
    "-1h": "last hour",
    "-6h": "last 6 hours",
    "-1d": "last 24 hours",
    "-7d": "last 7 days",
    "-30d": "last 30 days",
}
_MOST_STEPS: Final = 60
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS: Final = (
    *(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=hours) for hours in (1, 2, 3, 6, 12)),
)


@dataclass(frozen=True, slots=True)
class Period:
    """What the address of a page of figures asks for.

    Attributes:
        since: as it was asked for: a moment, or a time before now.
        until: likewise; None: now.
        window: the same in moments.
        step: of the charts, so that there are at most 60; more than a day whole days.
        sub: of one subscription; None: of all.
        seg: the segment whose percentiles are drawn.
    """

    since: datetime | timedelta
    until: datetime | timedelta | None
    window: Window
    step: timedelta
    sub: UUID | None
    seg: str

    @property
    def length(self) -> timedelta:
        """Say how long it is."""
        return self.window.until - self.window.since

    @property
    def before(self) -> Window:
        """Give the stretch of the same length that ends where this one begins."""
        return Window(self.window.since - self.length, self.window.since)

    @property
    def drawn(self) -> Window:
        """Give the window of the charts: it begins with a whole step, so that bars stand still."""
        since = self.window.since - (self.window.since - _EPOCH) % self.step
        return Window(since, self.window.until)

    @property
    def minutes(self) -> float:
        """Say for how many minutes figures can be there: they begin with a whole minute."""
        since = self.window.since.replace(second=0, microsecond=0)
        return max(1.0, (self.window.until - since) / timedelta(minutes=1))

    @property
    def text(self) -> str:
        """Write the beginning as the address has it."""
        return read.moment_texts(self.since)[0]

    @property
    def in_words(self) -> str:
        """Say which stretch it is."""
        if self.until is None and self.text in CHOICES:
            return CHOICES[self.text]
        since, until = self.window.since.astimezone(UTC), self.window.until.astimezone(UTC)
        return f"{since:%Y-%m-%d %H:%MZ} to {until:%Y-%m-%d %H:%MZ}"

    @property
    def choices(self) -> Mapping[str, str]:
        """Give what the form offers: what was asked for among it."""
        if self.until is None and self.text in CHOICES:
            return CHOICES
        return {**CHOICES, self.text: self.in_words}

    def params(self, **other: str | None) -> dict[str, Any]:
        """Give the canonical parameters, ``other`` in their place; defaults are dropped."""
        given: dict[str, str | None] = {
            "sub": None if self.sub is None else str(self.sub),
            "from": self.text,
            "to": next(iter(read.moment_texts(self.until)), None),
            "seg": self.seg,
            **other,
        }
        defaults = {"from": read.moment_texts(DEFAULT)[0], "seg": TOTAL}
        return {
            name: value for name, value in given.items() if value and value != defaults.get(name)
        }

    def list_params(self) -> dict[str, str]:
        """Give the parameters with which a list of deliveries shows the same stretch."""
        found = {"from": self.text}
        return found if self.until is None else found | {"to": read.moment_texts(self.until)[0]}


def read_period(sub: UUID | None = None) -> Period:
    """Read the query string.

    Args:
        sub: what the page itself fixes.

    Raises:
        InvalidInputError: names the parameter.
    """
    since = read.moment("from", request.args.get("from") or None) or DEFAULT
    until = read.moment("to", request.args.get("to") or None)
    seg = one_of("seg", (TOTAL, *(kind for kind in MEASURES if kind != TOTAL)))
    now = cast("datetime", g.now)
    window = Window(_pin(since, now), now if until is None else _pin(until, now))
    if window.since >= window.until:
        raise InvalidInputError("from", "from is later than to")
    if sub is None and (given := request.args.get("sub")):
        (sub,) = read.ids("sub", [given])
    return Period(since, until, window, _step(window), sub, seg)


def one_of(name: str, values: Sequence[str]) -> str:
    """Read a parameter that has few values; the first holds where none is given.

    Raises:
        InvalidInputError: names the parameter.
    """
    given = request.args.get(name) or values[0]
    if given not in values:
        raise InvalidInputError(name, f"{name} is one of {' '.join(filter(None, values))}")
    return given


def _pin(bound: datetime | timedelta, now: datetime) -> datetime:
    return now - bound if isinstance(bound, timedelta) else bound


def _step(window: Window) -> timedelta:
    length = window.until - window.since
    found = next((step for step in _STEPS if step * _MOST_STEPS >= length), None)
    return found or timedelta(days=-(-length // timedelta(days=_MOST_STEPS)))
