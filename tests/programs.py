"""Real programs: started, spoken to, stopped, killed, and told where to fall."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from psycopg import Connection

import receiver
from receiver import Received
from waiting import eventually

# A worker that does something to itself whenever it reaches a named moment.
_WITH_FAULT = """
import os, signal, sys
from worker import hooks
from worker.__main__ import main
def fault(what):
    {action}
hooks.listen({moment!r}, fault)
sys.exit(main({arguments!r}))
"""

KILL = "os.kill(os.getpid(), signal.SIGKILL)"
STOP = "os.kill(os.getpid(), signal.SIGSTOP)"


def wait_for_workers(db: Connection[Any], count: int) -> None:
    """Wait until so many have said that they run."""

    def are_there() -> bool:
        row = db.execute("SELECT count(*) FROM webhook_workers WHERE state = 'running'").fetchone()
        return row == (count,)

    eventually(are_there)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


class Running:
    """One process; killed at the end when it is still there, its log shown when a test failed."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._out = log.open("ab")
        self.process = subprocess.Popen(
            command, env=dict(environ), stdout=self._out, stderr=self._out
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout: float = 60) -> int:
        return self.process.wait(timeout)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.is_running:
            self.process.kill()
        self.process.wait()
        self._out.close()
        if kind is not None:
            sys.stderr.write(self.log.read_text()[-4000:])


class Program(Running):
    """A worker; ``action`` is what it does to itself at ``moment``."""

    def __init__(
        self,
        environ: Mapping[str, str],
        log: Path,
        *,
        name: str,
        moment: str | None = None,
        action: str = KILL,
    ) -> None:
        arguments = ["--name", name]
        if moment is None:
            command = [sys.executable, "-P", "-m", "worker", *arguments]
        else:
            script = _WITH_FAULT.format(moment=moment, action=action, arguments=arguments)
            command = [sys.executable, "-P", "-c", script]
        super().__init__(command, environ, log)


class ReceiverProgram(Running):
    """A receiver in a process of its own; see ``receiver``."""

    def __init__(self, environ: Mapping[str, str], folder: Path, *, name: str, script: str) -> None:
        self._requests = folder / f"{name}.requests"
        command = [sys.executable, receiver.__file__, "--script", script]
        super().__init__([*command, "--log", str(self._requests)], environ, folder / f"{name}.log")
        self.url = eventually(lambda: self.log.read_text().strip())

    def answer(self, script: str) -> None:
        """Answer in another way from now on."""
        self._tell("script", script.encode())

    def release(self) -> None:
        """Let every held request have its answer."""
        self._tell("release")

    def _tell(self, what: str, data: bytes = b"") -> None:
        request = urllib.request.Request(f"{self.url}/-/{what}", data=data)  # noqa: S310 - ours
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - ours
            pass

    @property
    def requests(self) -> list[Received]:
        """Every request so far, as the receiver wrote it down."""
        lines = map(json.loads, self._requests.read_bytes().splitlines())
        return [
            Received(
                at=line["at"],
                method=line["method"],
                target=line["target"],
                headers=tuple((name, value) for name, value in line["headers"]),
                body=base64.b64decode(line["body"]),
            )
            for line in lines
        ]
