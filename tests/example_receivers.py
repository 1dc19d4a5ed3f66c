"""The receivers of ``examples/``, as real servers on loopback that can be killed whole."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import psycopg

from serving import free_port
from waiting import eventually

FOLDER: Final = Path(__file__).resolve().parent.parent / "examples" / "receivers"

_GUNICORN: Final = ("gunicorn", "--threads=8", "--access-logfile=-", "--no-control-socket")
COMMANDS: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "flask": (*_GUNICORN, "flask_receiver:app", "--bind=127.0.0.1:{port}"),
        "fastapi": ("uvicorn", "fastapi_receiver:app", "--port={port}"),
        "django": (*_GUNICORN, "django_receiver:app", "--bind=127.0.0.1:{port}"),
    }
)


class ExampleReceiver:
    """One example, with its tables in a database of its own.

    ``start`` it when ``secrets`` has what its subscriptions sign with.
    """

    def __init__(self, name: str, database_url: str, log: Path) -> None:
        self.secrets: list[str] = []
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/webhooks"
        self.log = log
        module, *options = COMMANDS[name]
        self._command = [sys.executable, "-m", module]
        self._command += [option.format(port=self._port) for option in options]
        self._environ = {"PATH": os.environ["PATH"], "DATABASE_URL": database_url}
        self._process: subprocess.Popen[bytes] | None = None
        tables = subprocess.run(
            [sys.executable, FOLDER / "tables.py"], check=True, capture_output=True
        ).stdout
        with psycopg.connect(database_url) as conn:
            conn.execute(tables)

    def start(self) -> None:
        """Start it, in a process group of its own, and wait until it listens."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=FOLDER,
                env=self._environ | {"WEBHOOK_SECRETS": " ".join(self.secrets)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        eventually(self._listens)

    def kill(self) -> None:
        """End all of its processes at once, as a machine that fails does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.kill()
        if kind is not None and self.log.exists():
            sys.stderr.write(self.log.read_text()[-4000:])
