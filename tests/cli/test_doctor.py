"""``fencepost doctor`` finds what is wrong and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from commands import Commands
from factories import make_deliveries, make_subscription
from fencepost import __version__
from fencepost.cli import checks

WORKER = (
    "INSERT INTO webhook_workers (worker_id, node, version, transport, concurrency, beat_at)"
    " VALUES (%s, 'n', %s, 'requests', 64, fencepost_now() - make_interval(secs => %s))"
)


@pytest.fixture
def owner(superuser_url: str) -> Iterator[Connection[Any]]:
    with psycopg.connect(superuser_url, autocommit=True) as conn:
        yield conn


@pytest.fixture
def healthy(owner: Connection[Any]) -> None:
    owner.execute("SELECT webhook_ensure_partitions(3)")
    owner.execute(WORKER, ("w-1", __version__, 0))


def findings(fencepost: Commands, **settings: Any) -> list[str]:
    """What a doctor finds, besides good news and the missing fsync of the tests' server."""
    printed = fencepost.run_quietly("doctor", status=1, **settings).stdout
    return [
        line for line in printed.splitlines() if line[:3] != "ok " and "fsync is off" not in line
    ]


@pytest.mark.usefixtures("healthy")
def test_a_healthy_installation_has_only_good_news(fencepost: Commands) -> None:
    assert findings(fencepost, allow_networks=None) == []
    found = json.loads(fencepost.run_quietly("doctor", "--json", status=1).stdout)["data"]
    network, fsync = [finding for finding in found if finding["level"] != "ok"]
    assert fsync["level"] == "problem"
    assert network["level"] == "warning", "the tests' own loopback exemption"


def test_no_worker_is_a_problem(fencepost: Commands, owner: Connection[Any]) -> None:
    owner.execute(WORKER, ("w-gone", __version__, 600))
    (found,) = (line for line in findings(fencepost) if "workers" in line)
    assert "none is alive" in found
    assert "w-gone was the last" in found


@pytest.mark.usefixtures("healthy")
def test_a_worker_of_another_version_is_named(fencepost: Commands, owner: Connection[Any]) -> None:
    owner.execute(WORKER, ("w-old", "0.0.1", 1))
    assert any("w-old runs 0.0.1" in line for line in findings(fencepost))


@pytest.mark.usefixtures("healthy")
def test_traps_in_the_settings(fencepost: Commands) -> None:
    found = findings(fencepost, lease_seconds=5, bind="0.0.0.0:8080", allow_networks="10.0.0.0/8")
    assert [line.split()[:2] for line in found] == [
        ["warning", "lease:"],
        ["warning", "dashboard:"],
        ["warning", "endpoints:"],
    ]


def test_faults_of_the_settings_end_it_there(fencepost: Commands) -> None:
    found = findings(fencepost, bind="x", keys="nonsense")
    assert len(found) == 2
    assert all(line.startswith("problem  settings: FENCEPOST_") for line in found)


@pytest.mark.usefixtures("healthy")
def test_a_guard_that_is_off_is_a_problem_with_its_mend(
    fencepost: Commands, owner: Connection[Any]
) -> None:
    owner.execute("ALTER TABLE webhook_deliveries ENABLE TRIGGER webhook_deliveries_legal_move")
    (found,) = findings(fencepost, allow_networks=None)
    mend = found.split("To mend it: ")[1]
    owner.execute(mend)
    assert findings(fencepost, allow_networks=None) == []


@pytest.mark.usefixtures("healthy")
def test_what_waits_too_long(fencepost: Commands, owner: Connection[Any]) -> None:
    owner.execute(
        "INSERT INTO webhook_outbox (event_id, payload, created_at)"
        " VALUES (gen_random_uuid(), '', fencepost_now() - interval '5 minutes')"
    )
    delivery_id = make_deliveries(owner, make_subscription(owner))[0]
    owner.execute(
        "UPDATE webhook_deliveries SET current_state = 'LEASED', seq = seq + 1, worker_id = 'w',"
        " fencing_token = 1, lease_expires_at = fencepost_now() - interval '2 hours'"
        " WHERE id = %s",
        (delivery_id,),
    )
    found = findings(fencepost, allow_networks=None)
    assert any(line.startswith("problem  outbox: an event has waited 5 m for") for line in found)
    assert any(line.startswith("problem  leases: one ran out 2 h 00 m ago") for line in found)


@pytest.mark.usefixtures("healthy")
def test_keys_that_do_not_open_what_is_stored(fencepost: Commands, owner: Connection[Any]) -> None:
    delivery_id = make_deliveries(owner, make_subscription(owner, name="orders"))[0]
    owner.execute(
        "INSERT INTO webhook_payloads SELECT event_id, 'k-lost', '' FROM webhook_deliveries"
        " WHERE id = %s",
        (delivery_id,),
    )
    found = findings(fencepost, allow_networks=None)
    assert any("keys that are not set: k-lost" in line for line in found)
    assert any("the URL of subscription orders cannot be opened" in line for line in found)


def test_a_database_that_is_away_is_the_finding(fencepost: Commands) -> None:
    away = Commands(fencepost.environ, "postgresql://nobody@127.0.0.1:9/none")
    assert "problem  database: The database cannot be reached" in findings(away)[-1]


def test_an_older_schema_names_the_command(fencepost: Commands, owner: Connection[Any]) -> None:
    owner.execute("UPDATE fencepost_schema_version SET version_num = '0000'")
    assert "run `fencepost migrate`" in findings(fencepost)[-1]


def test_no_database_yet(fencepost: Commands) -> None:
    none = Commands(fencepost.environ, None)
    assert "fencepost up" in findings(none)[-1]


def test_secrets_that_others_can_read(tmp_path: Path) -> None:
    for name, mode in (("keys", 0o644), ("secret_key", 0o600)):
        (tmp_path / name).touch(mode)
        (tmp_path / name).chmod(mode)
    (found,) = checks.check_home(tmp_path)
    assert (found.level, found.mend) == ("problem", f"chmod 600 {tmp_path / 'keys'}")
    (tmp_path / "keys").chmod(0o600)
    assert [finding.level for finding in checks.check_home(tmp_path)] == ["ok"]


@pytest.mark.usefixtures("healthy")
def test_doors_that_go_by_other_settings(fencepost: Commands) -> None:
    (found,) = findings(fencepost, allow_networks=None, require_sealed=1)
    assert "FENCEPOST_REQUIRE_SEALED = 0, the settings here 1" in found
    fencepost.run("migrate", require_sealed=1)
    assert findings(fencepost, allow_networks=None, require_sealed=1) == []
