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


def measure(size: Size) -> Section:
    """Compare the waits of 99 subscriptions without and with a hundredth that hangs."""
    rows: list[list[object]] = []
    goals = []
    for transport, rate in ((name, _RATES[name]) for name in TRANSPORTS):
        common = ("--transport", transport, "--part", "steady", "--subscriptions", 99,
                  "--seconds", size.pick(8, 60))  # fmt: skip
        kinds: Mapping[str, tuple[object, ...]] = {
            "none": ("--rate", rate),
            "one of 100, half of the traffic": ("--rate", 2 * rate, "--hanging", 0.5),
            "none, as much traffic": ("--rate", 2 * rate),
        }
        found: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
        for _ in range(size.pick(2, 5)):
            for kind, options in kinds.items():
                found[kind].append(bench(*common, *options)["queue_wait_ms"])
        without, with_it, _ = waits = [_middle(each) for each in found.values()]
        times = with_it["p99"] / without["p99"]
        what = f"{transport}, others' p99 with one that hangs : without"
        goals.append(Goal.at_most(what, times, _MOST, "times"))
        rows += [
            [transport, kind, *each.values(), each["p99"] / without["p99"]]
            for kind, each in zip(kinds, waits, strict=True)
        ]
    return Section(
        title="Isolation",
        goals=goals,
        method="99 subscriptions get events at a fixed rate that leaves room: "
        + ", ".join(f"{rate}/s with {name}" for name, rate in _RATES.items())
        + ". Then a hundredth, which never answers, gets as many again. The third run has the same"
        " traffic as the second, and nobody hangs: what it has more than the first is load. Runs"
        " take turns, each with a database of its own; the middle one of each kind counts.",
        command="fencepost bench --part steady --subscriptions 99 --rate 400 --hanging 0.5",
        columns=("transport", "hanging", "p50 ms", "p95 ms", "p99 ms", "p99 times"),
        rows=rows,
    )


def _middle(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


if __name__ == "__main__":
    run_alone(measure)
