"""How fast a backlog is delivered, with everything on that is on in production."""

from __future__ import annotations

from runs import TRANSPORTS, Section, Size, drain, run_alone


def measure(size: Size) -> Section:
    """Drain with each transport, by one worker and by two."""
    rows: list[list[object]] = []
    figures: dict[str, float] = {}
    for transport in TRANSPORTS:
        for workers in (1, 2):
            found = drain(transport, workers, size)
            if found is None:
                continue
            rows.append(
                [
                    transport, workers, found["deliveries_per_second"], found["worker_cpu_us"],
                    found["postgres_cpu_us"], found["worker_rss_mb"], found["receiver_per_second"],
                ]
            )  # fmt: skip
            name = f"drain {transport}"
            figures[name] = max(figures.get(name, 0.0), found["deliveries_per_second"])
    return Section(
        title="Draining a backlog",
        target="curl at least 8,000/s with one worker and 10,000/s with two, requests at least"
        " 2,000/s with two; 15 and 3 times the best Celery of the same run.",
        command="fencepost bench --transport TRANSPORT --workers N",
        columns=(
            "transport", "workers", "deliveries/s", "worker CPU µs", "PostgreSQL CPU µs",
            "memory MB", "receiver alone/s",
        ),
        rows=rows,
        figures=figures,
    )  # fmt: skip


if __name__ == "__main__":
    run_alone(measure)
