"""``fencepost bench``: a small one, with real programs, finds every figure that is promised."""

from __future__ import annotations

import json

import pytest

from commands import Commands, Environ


@pytest.fixture
def bench(environ: Environ) -> Commands:
    """On a server of its own."""
    return Commands(environ, None)


def test_a_small_one_has_all_figures_and_breaks_nothing(bench: Commands) -> None:
    result = bench.run(
        "bench", "--deliveries", "200", "--seconds", "0.5", "--failing", "0.1", "--json"
    )
    found = json.loads(result.stdout)
    for name in (
        "deliveries_per_second", "published_to_delivered_per_second", "postgres_cpu_us",
        "worker_cpu_us", "worker_rss_mb", "receiver_per_second",
    ):  # fmt: skip
        assert found[name] > 0, name
    waits = found["queue_wait_ms"]
    assert 0 < waits["p50"] <= waits["p95"] <= waits["p99"]
    assert found["invariants"] == {}
    assert found["server"]["fsync"] == "on"
    assert found["parameters"]["deliveries"] == 200
    told = [line.split()[1] for line in found["timeline"]]
    assert told == ["RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED", "DELIVERED"]
    assert "Draining: 180 of 180" in result.stderr
    assert "requests/s when alone" in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sleeping",), "needs --backlog"),
        (("--failing", "0.5", "--hanging", "0.5"), "more than 0.9"),
        (("--transport", "pigeon"), "pigeon"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    bench: Commands, options: tuple[str, ...], says: str
) -> None:
    assert says in bench.run("bench", *options, status=2).stderr
