"""What a benchmark found: its goals with their figures, its table, and how both are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

_FEW_DIGITS = 100
"""Smaller numbers need decimals to say something."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A target with what was reached.

    Attributes:
        what: is measured.
        figure: that was measured; None: it could not be.
        target: to be reached, or not to be passed.
        unit: of both.
        is_limit: it is not to be passed.
    """

    what: str
    figure: float | None
    target: float
    unit: str
    is_limit: bool

    @classmethod
    def at_least(cls, what: str, figure: float | None, target: float, unit: str) -> Self:
        """Make a goal to be reached."""
        return cls(what, figure, target, unit, is_limit=False)

    @classmethod
    def at_most(cls, what: str, figure: float | None, target: float, unit: str) -> Self:
        """Make a goal not to be passed."""
        return cls(what, figure, target, unit, is_limit=True)

    @property
    def verdict(self) -> str:
        """Say whether it is met."""
        if self.figure is None:
            return "not measured"
        is_met = self.figure <= self.target if self.is_limit else self.figure >= self.target
        return "met" if is_met else "short"

    def cells(self) -> list[object]:
        """Give its line in a table."""
        bound = f"{'≤' if self.is_limit else '≥'} {cell(self.target)} {self.unit}"
        reached = "-" if self.figure is None else f"{cell(self.figure)} {self.unit}"
        return [self.what, bound, reached, self.verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one benchmark found.

    Attributes:
        title: of its chapter.
        goals: what was aimed at, and reached.
        method: how it was measured, in a few sentences.
        command: how it is run alone.
        columns: of its table.
        rows: their cells.
        versions: of what only this benchmark uses.
    """

    title: str
    goals: Sequence[Goal]
    method: str = ""
    command: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def as_markdown(section: Section) -> str:
    """Write a chapter."""
    parts = [f"## {section.title}", section.method, f"```sh\n{section.command}\n```"]
    parts += [goals_table(section.goals), table(section.columns, section.rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def goals_table(goals: Iterable[Goal]) -> str:
    """Write goals with their figures and verdicts."""
    return table(("", "target", "figure", ""), [goal.cells() for goal in goals])


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table; nothing when it has no lines."""
    if not rows:
        return ""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def cell(value: object) -> str:
    """Write a number with the digits that say something; anything else as it is."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= _FEW_DIGITS else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
