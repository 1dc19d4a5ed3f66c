"""Worker and dashboard as programs: how they are started, kept running and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self

from fencepost import tether

LONGEST_PAUSE: Final = 30.0
"""Seconds between two starts of a program that keeps dying."""

_STEADY: Final = 60.0
"""Seconds after which a program counts as running, and its next death as its first."""

_URGENT: Final = 5.0
"""Seconds that remain to a program which was asked twice."""


def module_argv(module: str, *arguments: str) -> list[str]:
    """Give the command line that runs one of our programs, wherever it is started.

    ``-P`` keeps the current folder out of the module path: a ``worker.py`` there would win.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def tethered(argv: Sequence[str]) -> list[str]:
    """Give the command line of a program that ends when the thread that starts it does.

    Args:
        argv: the program's own; the first is an absolute path.
    """
    return [sys.executable, "-I", tether.__file__, str(os.getpid()), *argv]


@dataclass(frozen=True, slots=True)
class Program:
    """A program to keep running.

    Attributes:
        name: how messages call it.
        argv: its command line; the first is an absolute path.
        environ: its whole environment.
        log: where its output is appended; None: to ours.
    """

    name: str
    argv: Sequence[str]
    environ: Mapping[str, str] = field(repr=False)
    log: Path | None = None


class StopSignal:
    """SIGTERM and SIGINT as something to wait for, while the context is open."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._again = threading.Event()
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._exit.callback(signal.signal, number, signal.signal(number, self._on_signal))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._exit.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        (self._again if self.is_set else self._asked).set()

    @property
    def is_set(self) -> bool:
        """Somebody asked us to stop."""
        return self._asked.is_set()

    @property
    def is_urgent(self) -> bool:
        """They asked twice."""
        return self._again.is_set()

    def set(self) -> None:
        """Stop as if a signal had come."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the first signal, at most so long; say whether it has come."""
        return self._asked.wait(seconds)


@dataclass(slots=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    deaths: int = 0
    due_at: float = 0.0

    def ask(self) -> None:
        """Ask the program to finish; asked again, it leaves at once."""
        if self.process is not None:
            self.process.terminate()

    def exit_status(self) -> int | None:
        """Give how it ended, None while it runs; with it ends whatever it had started."""
        if self.process is None or self.process.poll() is None:
            return None
        self._kill_group(self.process.pid)
        return self.process.returncode

    def kill(self) -> None:
        """End it and whatever it has started, now."""
        if self.process is not None:
            self._kill_group(self.process.pid)
            self.process.wait()

    @staticmethod
    def _kill_group(leader: int) -> None:
        with suppress(ProcessLookupError):  # nobody is left in it
            os.killpg(leader, signal.SIGKILL)


class Supervisor:
    """Keeps programs running, each in a session of its own, and leaves none behind.

    A terminal's Ctrl-C reaches only us, and we pass it on once. Should the thread that started
    them end, with or without the whole process, the kernel stops the programs: use the main one.

    Args:
        programs: what to run.
        say: told of deaths and restarts, one line each.
    """

    def __init__(self, programs: Sequence[Program], *, say: Callable[[str], None]) -> None:
        self._say = say
        self._running = [_Running(program) for program in programs]

    def start(self) -> None:
        """Start every program that is not running."""
        for running in self._running:
            if running.process is None:
                self._launch(running)

    @property
    def dead(self) -> list[tuple[str, int]]:
        """Names and exit statuses of those that have ended since they were started last."""
        ended = ((running.program.name, running.exit_status()) for running in self._running)
        return [(name, status) for name, status in ended if status is not None]

    def mend(self) -> None:
        """Start again what has died, each time after a longer pause; call it again and again."""
        now = time.monotonic()
        for running in self._running:
            status = running.exit_status()
            if status is not None:
                steady = now - running.started_at >= _STEADY
                running.deaths = 1 if steady else running.deaths + 1
                pause = min(LONGEST_PAUSE, 2.0 ** (running.deaths - 1))
                running.process, running.due_at = None, now + pause
                how = describe_exit(status)
                self._say(f"{running.program.name} {how}; starting it again in {pause:g} s")
            if running.process is None and now >= running.due_at:
                self._launch(running)

    def stop(self, patience: float, *, is_urgent: Callable[[], bool] = lambda: False) -> None:
        """Ask all to finish, and end those that do not.

        Args:
            patience: seconds until what still runs is killed.
            is_urgent: asked again and again; once true, all are told to leave at once.
        """
        live = [running for running in self._running if running.process is not None]
        for running in live:
            running.ask()
        until, pressed, tick = time.monotonic() + patience, False, threading.Event()
        while live := [running for running in live if running.exit_status() is None]:
            if is_urgent() and not pressed:
                pressed, until = True, min(until, time.monotonic() + _URGENT)
                for running in live:
                    running.ask()
            if time.monotonic() >= until:
                break
            tick.wait(0.05)
        for running in live:
            self._say(f"{running.program.name} does not stop; killing it")
            running.kill()

    def _launch(self, running: _Running) -> None:
        program = running.program
        with ExitStack() as stack:
            log = stack.enter_context(program.log.open("ab")) if program.log else None
            running.process = subprocess.Popen(  # noqa: S603 - our own programs
                tethered(program.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(program.environ),
                start_new_session=True,
            )
        running.started_at = time.monotonic()


def describe_exit(status: int) -> str:
    """Say how a process ended: ``ended with status 1``, ``was killed by SIGKILL``."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
