"""What a reader likes, in cookies of one browser: how it looks, never what may be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from flask import request

from fencepost.errors import InvalidInputError

SECONDS: Final = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Preference:
    """One choice.

    Attributes:
        label: what is chosen.
        values: what there is, and how each is called; the first one holds until another is chosen.
    """

    label: str
    values: Mapping[str, str]

    @property
    def default(self) -> str:
        """Give what holds where nothing is chosen."""
        return next(iter(self.values))


PREFERENCES: Final[Mapping[str, Preference]] = MappingProxyType(
    {
        "theme": Preference(
            "Theme", {"system": "as the system has it", "light": "light", "dark": "dark"}
        ),
        "times": Preference(
            "Times",
            {"relative": "relative: 12 s ago", "local": "local time", "UTC": "UTC"},
        ),
        "shortcuts": Preference("Single-key shortcuts", {"on": "on", "off": "off"}),
        "rows": Preference("Rows of a list", {"50": "50", "25": "25", "100": "100"}),
    }
)
"""By name; the cookie of each is ``fencepost_<name>``. ``app.js`` writes them too."""


def chosen() -> Mapping[str, str]:
    """Give every preference of the browser that asks; a value that there is not is none."""
    found = {name: request.cookies.get(cookie(name), "") for name in PREFERENCES}
    return {
        name: found[name] if found[name] in one.values else one.default
        for name, one in PREFERENCES.items()
    }


def rows_per_page() -> int:
    """Give how many rows a list shows where its address does not say."""
    return int(chosen()["rows"])


def read_form() -> Mapping[str, str]:
    """Read what the form chose; InvalidInputError names the field."""
    given = {name: request.form.get(name, one.default) for name, one in PREFERENCES.items()}
    for name, value in given.items():
        if value not in PREFERENCES[name].values:
            raise InvalidInputError(name, f"{name} is one of {', '.join(PREFERENCES[name].values)}")
    return given


def cookie(name: str) -> str:
    """Give the name of a preference's cookie."""
    return f"fencepost_{name}"
