"""A Redis without persistence, and a queue in it that is filled once and copied for each race."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from runs import BenchmarkError

from fencepost.processes import tethered

_PATIENCE: Final = 10.0
_DATABASES: Final = 64


@dataclass(frozen=True, slots=True)
class Broker:
    """A Redis that answers.

    Attributes:
        port: where.
        pid: of its process.
    """

    port: int
    pid: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def url(self, database: int = 0) -> str:
        """Give the address of one of its databases; the first holds the queue that is copied."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    def copied(self) -> str:
        """Copy Celery's queue from the first database to a fresh one; give that one's address."""
        database = next(self._numbers)
        if self._ask(f"COPY celery celery DB {database}") != ":1":
            raise BenchmarkError("Redis 6.2 or later is needed, with a queue to copy")
        return self.url(database)

    def length(self, url: str) -> int:
        """Count what waits in Celery's queue at this address."""
        database = url.rpartition("/")[2]
        return int(self._ask(f"SELECT {database}\r\nLLEN celery").rpartition(":")[2])

    def _ask(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE) as sock:
            sock.sendall(f"{command}\r\nQUIT\r\n".encode())
            said = b"".join(iter(lambda: sock.recv(4096), b"")).decode()
        return said.removesuffix("+OK\r\n").strip()


@contextmanager
def redis(folder: Path) -> Iterator[Broker]:
    """Run a Redis for as long as the block takes.

    Raises:
        BenchmarkError: it is not installed, or does not answer.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise BenchmarkError("redis-server is not installed: apt-get install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [
        program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--databases", str(_DATABASES), "--dir", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(tethered(argv), stdout=subprocess.DEVNULL)
    try:
        _await(port)
        yield Broker(port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _await(port: int) -> None:
    until, pause = time.monotonic() + _PATIENCE, threading.Event()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise BenchmarkError("redis-server does not answer") from None
            pause.wait(0.05)
        else:
            return
