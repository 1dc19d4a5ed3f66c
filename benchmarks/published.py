"""How fast events become deliveries that have arrived, from the producer's commit on."""

from __future__ import annotations

from runs import TRANSPORTS, Section, Size, drain, run_alone


def measure(size: Size) -> Section:
    """Quote the second and third part of the runs that ``drain`` makes."""
    rows: list[list[object]] = []
    figures: dict[str, float] = {}
    for transport in TRANSPORTS:
        found = drain(transport, 1, size)
        if found is None:
            continue
        rate, waits = found["published_to_delivered_per_second"], found["queue_wait_ms"]
        rows.append([transport, rate, found["steady_rate"], *waits.values()])
        figures[f"published {transport}"] = rate
    return Section(
        title="Published to delivered",
        target="curl at least 5,000 events/s sustained, fan-out and sealing included.",
        command="fencepost bench --transport TRANSPORT",
        columns=(
            "transport", "events/s", "steady rate/s", "queue wait p50 ms", "p95 ms", "p99 ms",
        ),
        rows=rows,
        figures=figures,
    )  # fmt: skip


if __name__ == "__main__":
    run_alone(measure)
