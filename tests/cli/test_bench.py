"""``fencepost bench``: a small one, with real programs, finds every figure that is promised."""

from __future__ import annotations

import json

import psycopg
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
    assert found["memory_mb"].keys() == {str(share) for share in range(10, 101, 10)}
    assert found["invariants"] == {}
    assert found["receiver_cpu_us"] >= 0, "so few cost it less than a tick"
    assert not found["receiver_is_limit"]
    assert found["server"]["fsync"] == "on"
    assert found["parameters"]["deliveries"] == 200
    told = [line.split()[1] for line in found["timeline"]]
    assert told == ["RECEIVED", "ENCRYPTED", "LEASED", "ATTEMPTED", "DELIVERED"]
    assert not any("resumed" in line for line in found["timeline"])
    assert "Draining: 180 of 180" in result.stderr
    assert "requests/s when alone" in result.stderr


def test_on_a_server_that_is_set_it_has_a_database_of_its_own(
    environ: Environ, superuser_url: str
) -> None:
    fencepost = Commands(environ, superuser_url)
    result = fencepost.run("bench", "--deliveries", "20", "--seconds", "0.5", "--json")
    assert json.loads(result.stdout)["invariants"] == {}
    with psycopg.connect(superuser_url) as conn:
        left = "SELECT datname FROM pg_database WHERE datname LIKE 'fencepost_bench_%'"
        assert conn.execute(left).fetchall() == []
        assert conn.execute("SELECT count(*) FROM webhook_events").fetchone() == (0,)


def test_a_part_alone_leaves_the_others_out(bench: Commands) -> None:
    options = ("--subscriptions", "3", "--hanging", "0.5", "--backlog", "100", "--sleeping")
    steady = ("--part", "steady", "--rate", "100", "--seconds", "0.5")
    result = bench.run("bench", *steady, *options, "--json", deadline_seconds=2, connect_seconds=1)
    found = json.loads(result.stdout)
    assert found["deliveries_per_second"] is None
    assert found["published_to_delivered_per_second"] is None
    assert found["steady_rate"] == 100
    assert found["queue_wait_ms"]["p99"] > 0
    assert found["invariants"] == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--sleeping",), "needs --backlog"),
        (("--part", "steady"), "needs --rate"),
        (("--failing", "0.5", "--hanging", "0.5"), "more than 0.9"),
        (("--transport", "pigeon"), "pigeon"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    bench: Commands, options: tuple[str, ...], says: str
) -> None:
    assert says in bench.run("bench", *options, status=2).stderr
