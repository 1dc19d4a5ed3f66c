"""Run all benchmarks and write ``docs/benchmarks.md``: ``make bench``, ``make bench FULL=1``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import claim_cost
import clients
import compared
import drain
import idle
import isolation
import memory
import publish
import published
import slow_receivers
from runs import Section, Size, as_markdown, tell

from fencepost.bench.figures import machine, versions

_PATH: Final = Path(__file__).parent.parent / "docs/benchmarks.md"
_ALL: Final = (
    compared, drain, published, clients, claim_cost, idle, isolation, slow_receivers, publish,
    memory,
)  # fmt: skip
_INTRO: Final = """\
# Benchmarks

Written by `make bench`{full}; no figure here was typed. Everything runs on one machine:
PostgreSQL with fsync, triggers and partitions, the receiver, the workers and the peers. So ratios
inside one run count, and absolute figures are for orientation. Every run of `fencepost bench` ends
with the statements of `fencepost/store/sql/invariants.sql`, which must find nothing.

Machine: {machine}\\
Versions: {versions}
"""


def main() -> None:
    """Measure, and write the report anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure for long")
    parser.add_argument("--only", nargs="*", help="names of benchmarks; the report is printed then")
    chosen = parser.parse_args()
    sections: list[Section] = []
    for module in _ALL:
        if chosen.only and module.__name__ not in chosen.only:
            continue
        tell(f"=== {module.__name__}")
        sections.append(module.measure(Size(chosen.full)))
        tell(as_markdown(sections[-1]))
    text = _written(sections, full=chosen.full)
    if chosen.only:
        print(text)
        return
    _PATH.parent.mkdir(exist_ok=True)
    _PATH.write_text(text, encoding="utf-8")


def _written(sections: list[Section], *, full: bool) -> str:
    found: dict[str, float] = {}
    for section in sections:
        found |= section.figures
    on = machine()
    intro = _INTRO.format(
        full=" with `FULL=1`" if full else ", the short form",
        machine=f"{on['cores']} cores of {on['processor']}, {on['memory_mb']:,} MB, {on['system']}",
        versions=", ".join(f"{name} {text}" for name, text in versions().items()),
    )
    return "\n".join([intro, _ratios(found), *map(as_markdown, sections)])


def _ratios(found: Mapping[str, float]) -> str:
    """Compare what was measured of ours with what was measured of others, in this run."""
    lines = ["## Ratios", "", "| | times |", "|---|---|"]
    for ours, figure in found.items():
        if not ours.startswith("drain "):
            continue
        lines += [
            f"| {ours} : {peer}, its best pool | {figure / found[peer]:.1f} |"
            for peer in compared.measured(found)
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
