"""How fast events become deliveries that have arrived, from the producer's statement on."""

from __future__ import annotations

from runs import TRANSPORTS, Size, bench, run_alone
from section import Goal, Section


def measure(size: Size) -> Section:
    """Publish as fast as one producer can, then at half of the rate at which that arrived."""
    rows: list[list[object]] = []
    goals = []
    for transport in TRANSPORTS:
        events = {"requests": size.pick(8_000, 60_000), "curl": size.pick(40_000, 400_000)}
        found = bench(
            "--transport", transport, "--part", "published", "--part", "steady",
            "--deliveries", 2 * events[transport],
        )  # fmt: skip
        rate, waits = found["published_to_delivered_per_second"], found["queue_wait_ms"]
        rows.append([transport, events[transport], rate, found["steady_rate"], *waits.values()])
        if transport == "curl":
            goals.append(Goal.at_least("curl, one worker", rate, 5_000, "events/s"))
    return Section(
        title="Published to delivered",
        goals=goals,
        method="A producer publishes as fast as it can, a hundred sealed events in a transaction,"
        " while one worker fans out and delivers: events, from the first statement of the producer"
        " to the last recorded outcome, over that time. Then a producer publishes at half of that"
        " rate; queue wait is the time from fan-out to the claim.",
        command="fencepost bench --transport TRANSPORT --part published --part steady",
        columns=(
            "transport", "events", "events/s", "steady rate/s", "queue wait p50 ms", "p95 ms",
            "p99 ms",
        ),
        rows=rows,
    )  # fmt: skip


if __name__ == "__main__":
    run_alone(measure)
