"""Whether a worker's memory stays flat, however much it has delivered."""

from __future__ import annotations

import os

from runs import TRANSPORTS, Section, Size, bench, run_alone


def measure(size: Size) -> Section:
    """Compare the most that a worker occupies in a short run with a run many times as long."""
    few, many = size.pick(5_000, 50_000), size.pick(30_000, 1_000_000)
    os.environ["FENCEPOST_CONCURRENCY"] = "64"
    rows: list[list[object]] = []
    try:
        for transport in TRANSPORTS:
            found = [
                bench("--transport", transport, "--deliveries", count, "--seconds", 1)
                for count in (few, many)
            ]
            if None in found:
                continue
            small, large = (float(one["worker_rss_mb"]) for one in found if one)
            rows.append([transport, 2 * few, small, 2 * many, large, large - small])
    finally:
        del os.environ["FENCEPOST_CONCURRENCY"]
    return Section(
        title="Memory",
        target="flat over 1,000,000 deliveries, and at most 150 MB (requests, 64 threads).",
        command="python benchmarks/memory.py --full",
        columns=("transport", "deliveries", "memory MB", "deliveries", "memory MB", "more MB"),
        rows=rows,
        figures={f"memory {row[0]}": float(str(row[4])) for row in rows},
    )


if __name__ == "__main__":
    run_alone(measure)
