"""One PostgreSQL cluster on disk: made whole or not at all, started, found running."""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.embedded_watch import run_as
from fencepost.errors import DatabaseUnavailableError, SettingsError
from fencepost.system_user import ServerUser, open_the_way

_OURS: Final = "fencepost.conf"
_LOG: Final = "server.log"
_LONGEST_SOCKET_FOLDER: Final = 100 - len("/.s.PGSQL.5432")
"""A socket's path has 107 bytes at most, on macOS 103."""
_START_SECONDS: Final = 300
"""Recovery after a crash under load takes long, and must not be cut short."""
_BUILTIN_LOCALES_SINCE: Final = 17
_NO_SUCH_PROCESS: Final = 2**31 - 1

_PARAMETERS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "256MB",
    "max_connections": "120",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql-%a.log",
    "log_truncate_on_rotation": "on",
}

_log = logging.getLogger("fencepost.embedded")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and the programs to handle it. Its methods run under the start lock."""

    data: Path
    run_folder: Path
    """Where the socket lies, or a link to where it lies when the path is too long."""
    bin_dir: Path
    user: ServerUser
    configuration: Mapping[str, str]

    @property
    def socket_folder(self) -> Path:
        """The folder to connect to."""
        return self.run_folder.readlink() if self.run_folder.is_symlink() else self.run_folder

    @property
    def stop_command(self) -> list[str]:
        """What stops the server: it rolls back what is open, and waits until it is done."""
        return [*self._pg_ctl("stop"), "-m", "fast", "-w", "-t", str(_START_SECONDS)]

    def prepare(self) -> None:
        """Make the cluster and the socket's folder where they are missing, and check them.

        Raises:
            SettingsError: the data are of another major version, or the programs do not run.
        """
        for path in (self.data, self.bin_dir / "postgres"):
            open_the_way(path, self.user)
        major = self._program_version()
        if not self.data.exists():
            self._initialise(major)
        version = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != str(major):
            raise SettingsError(
                f"FENCEPOST_HOME: {self.data} was written by PostgreSQL {version}, this is "
                f"{major}; dump it with that version, or choose another folder"
            )
        if self._lay_socket_folder() and self._is_alive():
            self._must("stop the server, whose socket is gone", self.stop_command)

    def start(self) -> None:
        """Start the server unless it answers; wait until it does.

        Raises:
            DatabaseUnavailableError: it does not start; the message ends with its log's end.
        """
        if self._answers():
            return
        if self._is_alive():
            self._await_answer()
            return
        self._write_configuration()
        command = self._pg_ctl("start")
        log = self.data / _LOG
        self._must("start", [*command, "-w", "-t", str(_START_SECONDS), "-l", str(log)], log=log)

    def tidy(self) -> None:
        """Remove the socket's folder from the temp folder, after the server has stopped."""
        if self.run_folder.is_symlink():
            shutil.rmtree(self.socket_folder, ignore_errors=True)
            self.run_folder.unlink()

    def _pg_ctl(self, action: str) -> list[str]:
        return [str(self.bin_dir / "pg_ctl"), action, "-D", str(self.data)]

    def _program_version(self) -> int:
        printed = self._must("run", [str(self.bin_dir / "postgres"), "--version"])
        found = re.search(r"PostgreSQL\) (\d+)", printed)
        if found is None:
            raise SettingsError(f"{self.bin_dir / 'postgres'} is no PostgreSQL: {printed.strip()}")
        return int(found[1])

    def _initialise(self, major: int) -> None:
        """Make the cluster beside its place and move it there, so that it is never half made."""
        draft = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        os.chown(draft, self.user.uid, self.user.gid)
        locale = ["--locale=C"]
        if major >= _BUILTIN_LOCALES_SINCE:
            locale = ["--locale-provider=builtin", "--locale=C.UTF-8"]
        sync = ["--no-sync"] if self.configuration.get("fsync") == "off" else []
        program = [str(self.bin_dir / "initdb"), "-D", str(draft), "-U", "postgres", "--auth=trust"]
        self._must("make its files", [*program, "--encoding=UTF8", *locale, *sync])
        with (draft / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"\ninclude_if_exists '{_OURS}'\n")
        draft.rename(self.data)

    def _write_configuration(self) -> None:
        folder = {"unix_socket_directories": str(self.socket_folder)}
        lines = ["# Written at each start by Fencepost; edits are lost.\n"]
        for name, text in {**_PARAMETERS, **folder, **self.configuration}.items():
            quoted = text.replace("'", "''")
            lines.append(f"{name} = '{quoted}'\n")
        path = self.data / _OURS
        path.write_text("".join(lines), encoding="utf-8")
        os.chown(path, self.user.uid, self.user.gid)

    def _lay_socket_folder(self) -> bool:
        """Make sure that the socket has a private folder with a short path.

        Returns:
            True when it had to be made.
        """
        if self.run_folder.is_dir() and self._is_private(self.socket_folder):
            return False
        if self.run_folder.is_symlink():
            self.run_folder.unlink()
        if len(os.fsencode(self.run_folder)) <= _LONGEST_SOCKET_FOLDER:
            self.run_folder.mkdir(mode=0o700, exist_ok=True)
        else:
            self.run_folder.symlink_to(tempfile.mkdtemp(prefix="fencepost-"))
            _log.info(
                "the socket lies in %s: the path of FENCEPOST_HOME is long", self.socket_folder
            )
        os.chown(self.socket_folder, self.user.uid, self.user.gid)
        self.socket_folder.chmod(0o700)
        open_the_way(self.socket_folder, self.user)
        return True

    def _is_private(self, folder: Path) -> bool:
        status = folder.lstat()
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == self.user.uid
        return ours and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)

    def _answers(self) -> bool:
        command = [str(self.bin_dir / "pg_isready"), "-q", "-h", str(self.socket_folder)]
        return run_as(command, self.user.uid, self.user.gid).returncode == 0

    def _is_alive(self) -> bool:
        """Say whether a server of this cluster runs, whatever it is doing.

        The process that a stale ``postmaster.pid`` names may be somebody else's by now.
        PostgreSQL would then refuse to start; the file's number is replaced by one that
        no process has, and the rest stays for PostgreSQL to judge.
        """
        path = self.data / "postmaster.pid"
        try:
            first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
            pid = int(first)
            os.kill(pid, 0)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return False
        except PermissionError:
            return False
        try:
            if Path(f"/proc/{pid}/cwd").samefile(self.data):
                return True
        except OSError:
            return not Path("/proc/self").exists()
        path.write_text("".join([f"{_NO_SUCH_PROCESS}\n", *rest]), encoding="utf-8")
        return False

    def _await_answer(self) -> None:
        pause = threading.Event()
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._answers():
                return
            pause.wait(0.1)
        raise DatabaseUnavailableError(
            f"the embedded PostgreSQL in {self.data} runs but does not answer; see its log folder"
        )

    def _must(self, what: str, command: list[str], log: Path | None = None) -> str:
        """Run one of PostgreSQL's programs as the server's user; its output, or an error."""
        try:
            done = run_as(command, self.user.uid, self.user.gid)
        except OSError as error:
            raise SettingsError(
                f"PostgreSQL cannot be run as {self.user.name}: {command[0]}: {error.strerror}"
            ) from error
        if done.returncode:
            told = log.read_text("utf-8", "replace") if log and log.exists() else done.stdout
            lines = [line.strip() for line in told.splitlines() if line.strip()]
            raise DatabaseUnavailableError(
                f"the embedded PostgreSQL did not {what}: {' / '.join(lines[-3:])}"
            )
        return done.stdout
