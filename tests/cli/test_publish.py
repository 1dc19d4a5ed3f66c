"""``fencepost publish`` and ``fencepost migrate``."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from click.testing import CliRunner

from commands import Commands
from fencepost.cli.root import cli
from fencepost.keyring import Keyring
from fencepost.store.migrate import head


def payload_of(db_url: str, keyring: Keyring, event_id: str) -> bytes:
    with psycopg.connect(db_url) as conn:
        conn.execute("SET ROLE fencepost_owner")
        found = conn.execute(
            "SELECT p.sealed, e.content_type, e.event_type FROM webhook_payloads p"
            " JOIN webhook_events e ON e.id = p.event_id WHERE e.id = %s",
            (event_id,),
        ).fetchone()
    assert found is not None
    sealed, content_type, event_type = found
    return keyring.open_payload(
        sealed, event_id=UUID(event_id), content_type=content_type, event_type=event_type
    )


def test_the_payload_is_published_byte_for_byte(
    fencepost: Commands, db_url: str, keyring: Keyring
) -> None:
    data = '{"b":1,  "a":1.10, "é": "\\u00e9"}\n'
    printed = fencepost.run("publish", "invoice.paid", "--data", data).stdout
    assert payload_of(db_url, keyring, printed.strip()) == data.encode()


def test_a_file_and_standard_input_hold_any_bytes(
    fencepost: Commands, db_url: str, keyring: Keyring, tmp_path: Path
) -> None:
    data = bytes(range(256))
    (tmp_path / "dump").write_bytes(data)
    octets = ("--content-type", "application/octet-stream")
    by_file = fencepost.run("publish", "dump.made", "--data", f"@{tmp_path}/dump", *octets)
    by_pipe = fencepost.run("publish", "dump.made", "--data", "-", *octets, stdin=data)
    for result in (by_file, by_pipe):
        assert payload_of(db_url, keyring, result.stdout.strip()) == data


def test_an_idempotency_key_gives_the_first_event(fencepost: Commands) -> None:
    keyed = ("publish", "invoice.paid", "--data", "{}", "--idempotency-key", "k1")
    first = fencepost.json(*keyed)
    again = fencepost.json(*keyed)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert first["id"] == again["id"]
    other = fencepost.run(*keyed[:3], "[]", *keyed[4:], status=1)
    assert "idempotency key" in other.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("in voice", "--data", "{}"), "an event type must be"),
        (("fencepost.test", "--data", "{}"), "Fencepost's own"),
        (("invoice.paid", "--data", "{"), "not JSON"),
        (("invoice.paid", "--data", "@/nowhere"), "cannot read /nowhere: No such file"),
        (("invoice.paid",), "--data"),
        (("invoice.paid", "--data", "{}", "--content-type", "json"), "content type"),
    ],
)
def test_what_cannot_be_published_is_wrong_usage(
    fencepost: Commands, args: tuple[str, ...], says: str
) -> None:
    assert says in fencepost.run("publish", *args, status=2).stderr


def test_migrating_again_is_harmless(fencepost: Commands) -> None:
    assert fencepost.run("migrate").stdout == f"The schema public is at {head()}.\n"


def test_a_database_that_is_away_is_said_in_one_line(fencepost: Commands) -> None:
    away = Commands(fencepost.environ, "postgresql://nobody@127.0.0.1:9/none")
    assert "cannot be reached" in away.run("publish", "a.b", "--data", "{}", status=1).stderr
    assert "cannot be reached" in away.run("migrate", status=1).stderr


def test_without_a_database_the_line_says_how_to_get_one(fencepost: Commands) -> None:
    none = Commands(fencepost.environ, None)
    assert "fencepost up" in none.run("publish", "a.b", "--data", "{}", status=1).stderr


def test_an_unmigrated_database_names_the_command(fencepost: Commands, superuser_url: str) -> None:
    with psycopg.connect(superuser_url) as conn:
        conn.execute("CREATE SCHEMA empty")
        conn.execute("GRANT USAGE ON SCHEMA empty TO PUBLIC")
    result = fencepost.run("publish", "a.b", "--data", "{}", status=1, schema="empty")
    assert "fencepost migrate" in result.stderr


def test_each_fault_of_the_settings_is_a_line() -> None:
    result = CliRunner().invoke(
        cli, ["migrate"], env={"FENCEPOST_HOMME": "x", "FENCEPOST_BIND": "nowhere"}
    )
    assert result.exit_code == 2
    assert [line.split(":")[:2] for line in result.stderr.splitlines()] == [
        ["fencepost", " FENCEPOST_HOMME"],
        ["fencepost", " FENCEPOST_BIND"],
    ]
