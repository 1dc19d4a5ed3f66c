"""Whether a worker's memory stays flat, however much it has delivered."""

from __future__ import annotations

from typing import Final

from runs import TRANSPORTS, Size, bench, environment, run_alone
from section import Goal, Section

_THREADS: Final = 64
_MOST_MB: Final = 150
_FLAT: Final = 1.05
_SETTLED: Final = "20"
"""Per cent of the run after which everything is loaded and every pool is full."""


def measure(size: Size) -> Section:
    """Look at what a worker occupies while it drains one long backlog."""
    count = size.pick(100_000, 1_000_000)
    rows: list[list[object]] = []
    goals = []
    for transport in TRANSPORTS:
        # The same for both: what curl needs for a thousand at once is measured elsewhere.
        with environment(FENCEPOST_CONCURRENCY=_THREADS):
            found = bench("--transport", transport, "--part", "drain", "--deliveries", count)
        series = found["memory_mb"]
        ratio = series["100"] / series[_SETTLED]
        if transport == "requests":
            what = f"requests, {_THREADS} threads, the most"
            goals.append(Goal.at_most(what, found["worker_rss_mb"], _MOST_MB, "MB"))
        what = f"{transport}, after {count:,} deliveries : after a fifth of them"
        goals.append(Goal.at_most(what, ratio, _FLAT, "times"))
        rows += [[transport, count * int(share) // 100, mb] for share, mb in series.items()]
    return Section(
        title="Memory",
        goals=goals,
        method="What the worker's process occupies (resident set), sampled ten times a second while"
        f" it drains a backlog with {_THREADS} requests in flight, and shown at each tenth."
        " Flat: at the end at most 5 % more than after a fifth.",
        command=f"FENCEPOST_CONCURRENCY={_THREADS} fencepost bench --part drain"
        f" --deliveries {count} --transport TRANSPORT --json",
        columns=("transport", "deliveries", "memory MB"),
        rows=rows,
    )


if __name__ == "__main__":
    run_alone(measure)
