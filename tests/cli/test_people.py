"""``fencepost user`` and ``fencepost token``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from commands import Commands
from fencepost.store.logins import log_in
from fencepost.store.tokens import read_token

PASSWORD = "correct horse battery"


def test_a_user_can_log_in_with_the_password_from_stdin(fencepost: Commands, db_url: str) -> None:
    added = ("user", "add", "Dana", "--role", "operator", "--password-stdin")
    assert fencepost.run(*added, stdin=f"{PASSWORD}\n").stdout == "Added Dana, operator.\n"
    with psycopg.connect(db_url) as conn:
        conn.execute("SET ROLE fencepost_dashboard")
        user = log_in(conn, "dana", PASSWORD, address=None).user
    assert user is not None
    assert user.role == "operator"
    again = fencepost.run(*added, stdin=f"{PASSWORD}\n", status=1)
    assert "There is a user named 'Dana' already" in again.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "says"),
    [
        (("dana", "--role", "operator", "--password-stdin"), "short\n", "at least 12"),
        (("dana", "--role", "operator"), "", "--password-stdin"),
        (("dana", "--role", "root", "--password-stdin"), PASSWORD, "--role"),
        (("dana", "--role", "viewer", "--password", PASSWORD), "", "No such option"),
    ],
)
def test_what_is_no_user(fencepost: Commands, args: tuple[str, ...], stdin: str, says: str) -> None:
    stderr = fencepost.run("user", "add", *args, stdin=stdin, status=2).stderr
    assert says in stderr
    assert PASSWORD not in stderr


def test_on_a_terminal_the_password_is_asked_for_twice_and_not_shown(
    environ: Any, db_url: str
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "user", "add", "dana", "--role", "viewer"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environ(db_url),
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    for _ in range(2):
        while not shown.endswith(b": "):
            shown += os.read(ours, 1)
        os.write(ours, f"{PASSWORD}\n".encode())
        shown += os.read(ours, 1)
    stdout, _ = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, stdout) == (0, b"Added dana, viewer.\n")
    assert PASSWORD.encode() not in shown


def test_a_token_is_printed_once_and_works(fencepost: Commands, db_url: str) -> None:
    text = fencepost.run("token", "create", "ci", "--role", "viewer", "--days", "30").stdout.strip()
    as_json = fencepost.json("token", "create", "ci", "--role", "admin")
    with psycopg.connect(db_url) as conn:
        conn.execute("SET ROLE fencepost_dashboard")
        found, admin = read_token(conn, text), read_token(conn, as_json["token"])
    assert found is not None
    assert admin is not None
    assert (found.name, found.role, admin.role) == ("ci", "viewer", "admin")
    assert found.expires_at is not None
    assert admin.expires_at is None
