"""What a subscription that hangs, with half of all traffic, does to everybody else."""

from __future__ import annotations

from runs import TRANSPORTS, Section, Size, bench, run_alone

_RATES = {"requests": 200, "curl": 1000}
"""Events a second for the others, with and without."""


def measure(size: Size) -> Section:
    """Compare the waits of 99 subscriptions without and with a hundredth that hangs."""
    rows: list[list[object]] = []
    figures: dict[str, float] = {}
    for transport in TRANSPORTS:
        common = ("--transport", transport, "--subscriptions", 99, "--deliveries", 2000,
                  "--seconds", size.pick(10, 60))  # fmt: skip
        rate = _RATES[transport]
        without = bench(*common, "--rate", rate)
        with_it = bench(*common, "--rate", 2 * rate, "--hanging", 0.5)
        if without is None or with_it is None:
            continue
        ratio = with_it["queue_wait_ms"]["p99"] / without["queue_wait_ms"]["p99"]
        figures[f"isolation {transport}"] = ratio
        for what, found, times in (("none", without, 1.0), ("one of 100", with_it, ratio)):
            rows.append([transport, what, rate, *found["queue_wait_ms"].values(), times])
    return Section(
        title="Isolation",
        target="while one of 100 subscriptions hangs with half of all traffic, the others' p99"
        " queue wait is at most twice that without it.",
        command="fencepost bench --subscriptions 99 --rate 400 --hanging 0.5",
        columns=("transport", "hanging", "others' events/s", "p50 ms", "p95 ms", "p99 ms",
                 "times"),
        rows=rows,
        figures=figures,
    )  # fmt: skip


if __name__ == "__main__":
    run_alone(measure)
