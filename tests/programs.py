"""Real worker processes: started, stopped, killed, and told where to fall."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

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


class Program:
    """One worker process; killed at the end when it is still there."""

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

    def __enter__(self) -> Program:
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
