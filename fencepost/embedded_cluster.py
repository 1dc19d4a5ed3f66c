"""One PostgreSQL cluster on disk: made whole or not at all, started, found running."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.embedded_socket import SocketFolder
from fencepost.embedded_watch import run_as
from fencepost.errors import DatabaseUnavailableError, SettingsError
from fencepost.system_user import ServerUser, open_the_way

_OURS: Final = "fencepost.conf"
_START_SECONDS: Final = 300
"""Recovery after a crash under load takes long, and must not be cut short."""
_ORPHAN_SECONDS: Final = 30
"""How long the processes of a killed server may take to notice it and end."""
_ORPHANS: Final = "is still in use"
_BETWEEN_LOOKS: Final = 0.1
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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster and the programs to handle it. Its methods run under the start lock."""

    data: Path
    socket: SocketFolder
    bin_dir: Path
    user: ServerUser
    configuration: Mapping[str, str]

    @property
    def stop_command(self) -> list[str]:
        """What stops the server: it rolls back what is open, and waits until it is done."""
        return [*self._pg_ctl("stop"), "-m", "fast", "-w", "-t", str(_START_SECONDS)]

    def program_version(self) -> int:
        """Give the major version of the programs.

        Raises:
            SettingsError: they do not run.
        """
        program = self.bin_dir / "postgres"
        if not program.is_file():
            raise SettingsError(f"there is no PostgreSQL at {program}")
        open_the_way(program, self.user)
        printed = self._must("run", [str(program), "--version"])
        found = re.search(r"PostgreSQL\) (\d+)", printed)
        if found is None:
            raise SettingsError(f"{program} is no PostgreSQL: {printed.strip()}")
        return int(found[1])

    def prepare(self, major: int) -> None:
        """Make the cluster and the socket's folder where they are missing, and check them.

        Args:
            major: of the programs.

        Raises:
            SettingsError: the data are of another major version.
        """
        open_the_way(self.data, self.user)
        if not self.data.exists():
            self._initialise(major)
        version = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != str(major):
            raise SettingsError(
                f"FENCEPOST_HOME: {self.data} was written by PostgreSQL {version}, this is "
                f"{major}; dump it with that version, or choose another folder"
            )
        if self.socket.lay() and self._is_alive():
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
        until = time.monotonic() + _ORPHAN_SECONDS
        while (told := self._try_to_start()) is not None:
            if _ORPHANS not in told or time.monotonic() > until:
                raise DatabaseUnavailableError(f"the embedded PostgreSQL did not start: {told}")
            threading.Event().wait(_BETWEEN_LOOKS)

    def _try_to_start(self) -> str | None:
        """Start the server; None, or what its logs say about why it did not."""
        first = self.data / "server.log"
        first.unlink(missing_ok=True)
        self.socket.clear()
        sizes = {path: path.stat().st_size for path in self._logs()}
        command = [*self._pg_ctl("start"), "-w", "-t", str(_START_SECONDS), "-l", str(first)]
        done = run_as(command, self.user.uid, self.user.gid)
        if done.returncode == 0:
            return None
        texts = [
            path.read_bytes()[sizes.get(path, 0) :]
            for path in (first, *self._logs())
            if path.exists()
        ]
        told = _last_lines(b"\n".join(texts).decode("utf-8", "replace"))
        return told or _last_lines(done.stdout)

    def _logs(self) -> list[Path]:
        return sorted((self.data / "log").glob("*.log"))

    def _pg_ctl(self, action: str) -> list[str]:
        return [str(self.bin_dir / "pg_ctl"), action, "-D", str(self.data)]

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
        folder = {"unix_socket_directories": str(self.socket.path)}
        lines = ["# Written at each start by Fencepost; edits are lost.\n"]
        for name, text in {**_PARAMETERS, **folder, **self.configuration}.items():
            quoted = text.replace("'", "''")
            lines.append(f"{name} = '{quoted}'\n")
        path = self.data / _OURS
        path.write_text("".join(lines), encoding="utf-8")
        os.chown(path, self.user.uid, self.user.gid)

    def _answers(self) -> bool:
        command = [str(self.bin_dir / "pg_isready"), "-q", "-h", str(self.socket.path)]
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
            if not Path("/proc/self").exists():
                return True
            # A zombie, say: where no init process reaps, a killed server stays one.
        path.write_text("".join([f"{_NO_SUCH_PROCESS}\n", *rest]), encoding="utf-8")
        return False

    def _await_answer(self) -> None:
        pause = threading.Event()
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._answers():
                return
            pause.wait(_BETWEEN_LOOKS)
        raise DatabaseUnavailableError(
            f"the embedded PostgreSQL in {self.data} runs but does not answer; see its log folder"
        )

    def _must(self, what: str, command: list[str]) -> str:
        """Run one of PostgreSQL's programs as the server's user; its output, or an error."""
        try:
            done = run_as(command, self.user.uid, self.user.gid)
        except OSError as error:
            raise SettingsError(
                f"PostgreSQL cannot be run as {self.user.name}: {command[0]}: {error.strerror}"
            ) from error
        if done.returncode:
            raise DatabaseUnavailableError(
                f"the embedded PostgreSQL did not {what}: {_last_lines(done.stdout)}"
            )
        return done.stdout


def _last_lines(text: str) -> str:
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-4:])
