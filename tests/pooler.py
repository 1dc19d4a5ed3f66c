"""A real PgBouncer that lends connections by the transaction, few of them to many clients."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from waiting import eventually

_PORT = 6432


class Pooler:
    """Clients are trusted; whoever connects is the login of the same name at the server.

    Args:
        folder: of its socket.
        target: the database's address.
    """

    def __init__(self, folder: Path, target: str) -> None:
        self._folder = folder
        self._name = str(psycopg.conninfo.conninfo_to_dict(target)["dbname"])

    def url(self, login: str) -> str:
        """Give the database's address, through the pooler."""
        return f"postgresql://{login}@/{self._name}?host={self._folder}&port={_PORT}"

    def reconnect(self) -> None:
        """Close the server's connections, so that new ones bring what was changed for the login."""
        self.tell("RECONNECT")

    def tell(self, command: str) -> None:
        """Give a command at the pooler's console."""
        with psycopg.connect(
            host=str(self._folder), port=_PORT, user="console", dbname="pgbouncer", autocommit=True
        ) as console:
            psycopg.ClientCursor(console).execute(command.encode())


@contextmanager
def pooling(target: str, *, connections: int) -> Iterator[Pooler]:
    """Run a pooler in front of a database.

    Args:
        target: the database's address, on a socket.
        connections: to the server, for each login.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.fail("There is no PgBouncer on this machine: apt-get install pgbouncer")
    server = psycopg.conninfo.conninfo_to_dict(target)
    folder = Path(tempfile.mkdtemp(prefix="fencepost-pooler-"))
    user = pwd.getpwuid(Path(str(server["host"])).stat().st_uid)
    (folder / "users").write_text('"console" ""\n')
    (folder / "ini").write_text(
        f"""
[databases]
* = host={server["host"]} port={server.get("port", 5432)}
[pgbouncer]
unix_socket_dir = {folder}
listen_port = {_PORT}
auth_type = trust
auth_file = {folder}/users
auth_query = SELECT rolname, '' FROM pg_roles WHERE rolname = $1
auth_user = postgres
admin_users = console
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
logfile = {folder}/log
"""
    )
    for path in (folder, *folder.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    as_root = ["-u", user.pw_name] if os.getuid() == 0 else []  # the server's own user, as it wants
    process = subprocess.Popen(
        [program, "-q", *as_root, str(folder / "ini")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: process.poll() is not None or list(folder.glob(".s.PGSQL.*")))
        assert process.poll() is None, (folder / "log").read_text()
        yield Pooler(folder, target)
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder)
