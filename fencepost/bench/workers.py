"""The workers that are measured: real processes, as ``fencepost worker`` starts them."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fencepost.bench import usage
from fencepost.bench.database import Database
from fencepost.errors import FencepostError
from fencepost.processes import describe_exit, module_argv, tethered
from fencepost.store.queries import load

_SQL: Final = load("bench.sql")
_PATIENCE: Final = 60.0
_DRAIN_MARGIN: Final = 30.0


class WorkerError(FencepostError):
    """A worker ended or did not start; the message ends with the end of its log."""


class Workers:
    """Worker processes that are all at work.

    Args:
        processes: each with its log.
    """

    def __init__(self, processes: dict[Path, subprocess.Popen[bytes]]) -> None:
        self._processes = processes

    def check(self) -> None:
        """Raise WorkerError when one has ended."""
        for log, process in self._processes.items():
            if (status := process.poll()) is not None:
                raise WorkerError(f"a worker {describe_exit(status)}: {_end_of(log)}")

    def cpu_seconds(self) -> float:
        """Give the processor time that all have used so far."""
        return sum(usage.cpu_seconds(process.pid) for process in self._processes.values())

    def peak_memory_mb(self) -> float | None:
        """Give the most memory that any of them has occupied; None: nobody tells."""
        return usage.peak_memory_mb(process.pid for process in self._processes.values())

    def memory_mb(self) -> float | None:
        """Give what the largest of them occupies now; None: nobody tells."""
        return usage.memory_mb(process.pid for process in self._processes.values())

    def stop(self, patience: float) -> None:
        """Ask all to finish, and kill those that do not within so many seconds."""
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + patience
        for process in self._processes.values():
            try:
                process.wait(max(0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def workers(db: Database, count: int) -> Iterator[Workers]:
    """Run workers for as long as the block takes, from when all are ready.

    Raises:
        WorkerError: one did not start.
    """
    logs = [db.folder / f"worker-{place + 1}.log" for place in range(count)]
    found = Workers({log: _start(db, log) for log in logs})
    try:
        with db.connect("owner") as conn:
            _await(
                found,
                lambda: conn.execute(_SQL.count_running_workers).fetchone() == (count,),
            )
        yield found
    finally:
        found.stop(db.settings.deadline_seconds + _DRAIN_MARGIN)


def _start(db: Database, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - our own program
            tethered(module_argv("worker")), env=dict(db.environ), stdout=out, stderr=out
        )


def _await(found: Workers, is_ready: Callable[[], bool]) -> None:
    until, tick = time.monotonic() + _PATIENCE, threading.Event()
    while not is_ready():
        found.check()
        if time.monotonic() > until:
            raise WorkerError("the workers are not ready in time")
        tick.wait(0.05)


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return " / ".join(line for line in lines if line)[-500:]
