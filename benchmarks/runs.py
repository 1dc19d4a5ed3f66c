"""What all benchmarks share: how large they are, how one is run, and what it reports."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

TRANSPORTS: Final = ("requests", "curl")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: the short form fits into a coffee break, the full one into a night."""

    is_full: bool

    def pick(self, short: int, full: int) -> int:
        """Give the number for this size."""
        return full if self.is_full else short


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one benchmark found.

    Attributes:
        title: of its chapter.
        target: what is aimed at, in words.
        command: how it is run alone.
        columns: of its table.
        rows: their cells.
        figures: what others compare themselves with, by name.
    """

    title: str
    target: str
    command: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    figures: Mapping[str, float]


def run_alone(measure: Callable[[Size], Section]) -> None:
    """Run one benchmark from its command line and print its table."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--full", action="store_true", help="measure for long")
    print(as_markdown(measure(Size(parser.parse_args().full))))


def as_markdown(section: Section) -> str:
    """Write a chapter."""
    lines = [section.columns, ["---"] * len(section.columns), *section.rows]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    return (
        f"## {section.title}\n\nTarget: {section.target}\n\n```sh\n{section.command}\n```\n\n"
        f"{table}\n"
    )


@cache
def bench(*arguments: object) -> dict[str, Any] | None:
    """Run ``fencepost bench`` as a program; the same arguments are run once.

    Returns:
        Its JSON; None when this version has no such transport.
    """
    argv = [sys.executable, "-P", "-m", "fencepost", "bench", *map(str, arguments), "--json"]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode == 2:  # noqa: PLR2004 - wrong usage
        tell(done.stderr.decode().strip().rpartition("\n")[2])
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{done.stderr.decode()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def drain(transport: str, workers: int, size: Size) -> dict[str, Any] | None:
    """Run the benchmark that several chapters quote."""
    deliveries = {"requests": size.pick(10_000, 100_000), "curl": size.pick(40_000, 400_000)}
    return bench(
        "--transport", transport, "--workers", workers, "--deliveries", deliveries[transport]
    )  # fmt: skip


def tell(line: str) -> None:
    """Say how it goes, on stderr."""
    print(line, file=sys.stderr, flush=True)


def quiet(done: int) -> None:
    """Show nothing of a preparation's progress."""
    del done


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"  # noqa: PLR2004 - digits that say something
    return f"{value:,}" if isinstance(value, int) else str(value)
