"""The filter bar: what was chosen, and what can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from dashboard import names, presenters
from dashboard.presenters import Look
from fencepost.model import ErrorClass
from fencepost.states import State

WINDOWS: Final = (
    ("", "any time"),
    ("-15m", "last 15 minutes"),
    ("-1h", "last hour"),
    ("-24h", "last 24 hours"),
    ("-7d", "last 7 days"),
    ("-30d", "last 30 days"),
)
_PLAIN: Final = frozenset({"sub", "state", "from"})


@dataclass(frozen=True, slots=True)
class FilterForm:
    """What the form's fields hold and offer."""

    chosen: Mapping[str, Sequence[str]]
    subscriptions: Sequence[tuple[UUID, str]]
    states: Sequence[tuple[str, Look]]
    windows: Sequence[tuple[str, str]]
    errors: Sequence[str]

    def value(self, name: str) -> str:
        """Give a field's first value, or none."""
        return next(iter(self.chosen.get(name, ())), "")

    @property
    def has_more(self) -> bool:
        """Whether a field below the fold is in use, which then is shown open."""
        return not _PLAIN.issuperset(self.chosen)


def read(chosen: Mapping[str, Sequence[str]]) -> FilterForm:
    """Fill the form in.

    Args:
        chosen: the filter's canonical parameters.
    """
    offered = dict(names.choices())
    picked = [UUID(text) for text in chosen.get("sub", ())]
    # One that is not offered (removed, or beyond the list's end) stays chosen all the same.
    offered |= names.names_of([each for each in picked if each not in offered])
    windows = list(WINDOWS)
    since = next(iter(chosen.get("from", ())), "")
    if since not in dict(windows):
        windows.append((since, f"since {since}"))
    return FilterForm(
        chosen=chosen,
        subscriptions=list(offered.items()),
        states=[(state.lower(), presenters.STATES[state]) for state in State],
        windows=windows,
        errors=[item.value for item in ErrorClass],
    )
