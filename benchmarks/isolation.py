"""What a subscription that hangs, with half of all traffic, does to everybody else."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from runs import TRANSPORTS, Size, bench, run_alone
from section import Goal, Section

_RATES: Final = {"requests": 200, "curl": 1000}
"""Events a second for the others: well below what a worker can do, with and without."""

_MOST: Final = 2.0

_NONE: Final = "none"
_HANGING: Final = "one of 100, half of the traffic"


def measure(size: Size) -> Section:
    """Compare the waits of 99 subscriptions without and with a hundredth that hangs."""
    rows: list[list[object]] = []
    goals = []
    for transport, rate in ((name, _RATES[name]) for name in TRANSPORTS):
        found = _rounds(size, transport, rate)
        base = [one["p99"] for one in found[_NONE]]
        for kind, tries in found.items():
            p99 = [one["p99"] for one in tries]
            times = statistics.median(one / alone for one, alone in zip(p99, base, strict=True))
            middle = [statistics.median(one[name] for one in tries) for name in tries[0]]
            rows.append([transport, kind, *middle, f"{min(p99):.1f} to {max(p99):.1f}", times])
            if kind == _HANGING:
                what = f"{transport}, others' p99 with one that hangs : without"
                goals.append(Goal.at_most(what, times, _MOST, "times"))
    return Section(
        title="Isolation",
        goals=goals,
        method="99 subscriptions get events at a fixed rate that leaves room: "
        + ", ".join(f"{rate}/s with {name}" for name, rate in _RATES.items())
        + ". Then a hundredth, which never answers, gets as many again. The third run has the same"
        " traffic as the second, and nobody hangs: what it has more than the first is load. The"
        " three follow each other, each with a database of its own, for several rounds. A run's p99"
        " is compared with that of the first run of its round, and the middle ratio counts; how far"
        " the p99 of the rounds lie apart shows what a ratio is worth.",
        command="fencepost bench --part steady --subscriptions 99 --rate 400 --hanging 0.5",
        columns=("transport", "hanging", "p50 ms", "p95 ms", "p99 ms", "p99 of the rounds",
                 "p99 times"),
        rows=rows,
    )  # fmt: skip


def _rounds(size: Size, transport: str, rate: int) -> dict[str, list[dict[str, float]]]:
    """Give what the others waited, for each kind of run the rounds in their order."""
    common = ("--transport", transport, "--part", "steady", "--subscriptions", 99,
              "--seconds", size.pick(8, 60))  # fmt: skip
    kinds: Mapping[str, tuple[object, ...]] = {
        _NONE: ("--rate", rate),
        _HANGING: ("--rate", 2 * rate, "--hanging", 0.5),
        "none, as much traffic": ("--rate", 2 * rate),
    }
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for _ in range(size.pick(3, 5)):
        for kind, options in kinds.items():
            found[kind].append(bench(*common, *options)["queue_wait_ms"])
    return found


if __name__ == "__main__":
    run_alone(measure)
