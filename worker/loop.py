"""A loop calls one step, again and again; only here does the worker wait."""

from __future__ import annotations

import logging
import random
import threading
from typing import Protocol

from fencepost.errors import DatabaseUnavailableError

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between tries while something is wrong: doubled each time, up to the longest."""


def pause_after(failures: int, chance: random.Random, *, longest: float = LONGEST_PAUSE) -> float:
    """Give the seconds to wait after so many failures in a row, from 1."""
    return min(longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 10)) * chance.uniform(0.5, 1)


class Step(Protocol):
    """One unit of work."""

    def __call__(self) -> float:
        """Do it, and give the seconds to wait before the next; 0 for "again, now"."""
        ...


class Loop:
    """A thread that calls a step until it is told to stop.

    A step that fails is called again after a pause that grows: a database that is away
    for minutes is waited for, and a defect neither stops the worker nor spins it.

    Args:
        name: of the thread, and in the log.
        step: what to call.
        chance: spreads the pauses of many workers.
        longest_pause: seconds between tries while something is wrong.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        *,
        chance: random.Random,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        self.name = name
        self._step = step
        self._chance = chance
        self._longest_pause = longest_pause
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """End the present wait early."""
        if not self._woken.is_set():  # many callers, one wait: setting it anew takes a lock
            self._woken.set()

    def stop(self) -> None:
        """Let the present step end, and call no other."""
        self._stopping.set()
        self._woken.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the last step; tell whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                pause = self._step()
            except Exception as error:  # noqa: BLE001 - a worker outlives every fault of a step
                failures += 1
                pause = pause_after(failures, self._chance, longest=self._longest_pause)
                self._report(error, failures, pause)
            else:
                if failures:
                    log.info("loop.recovered loop=%s failures=%d", self.name, failures)
                failures = 0
            if pause > 0:
                # While something is wrong, a call to hurry would make it spin.
                (self._stopping if failures else self._woken).wait(pause)

    def _report(self, error: Exception, failures: int, pause: float) -> None:
        if isinstance(error, DatabaseUnavailableError):
            if failures == 1:
                log.warning("database.away loop=%s error=%s", self.name, error)
            return
        log.error(
            "loop.failed loop=%s failures=%d next_try_in=%.1fs",
            self.name, failures, pause, exc_info=error,
        )  # fmt: skip
