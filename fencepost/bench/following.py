"""Waits for a part of a run to end, and samples it on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from uuid import UUID

from psycopg import Connection

from fencepost.bench import usage
from fencepost.bench.producing import Running
from fencepost.bench.receivers import Arrivals, Receivers
from fencepost.bench.series import Sample, Series
from fencepost.bench.workers import Workers
from fencepost.errors import FencepostError
from fencepost.store.queries import load

_SQL: Final = load("bench.sql")
_TICK: Final = 0.1
_STALLED_AFTER: Final = 90.0
"""Seconds without one more request."""

WORKER: Final = "worker"
STORE: Final = "store"
RECEIVER: Final = "receiver"


class StalledError(FencepostError):
    """Nothing is delivered any more, and something is left to deliver."""


class Watch(Protocol):
    """Shows how one part of a run goes on."""

    def __call__(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Begin to show the way to ``total``; what the block gets is told how many are done."""


@dataclass(slots=True)
class Sampler:
    """Takes samples of a part, the first one when it is made.

    Attributes:
        to: what receives.
        server: PostgreSQL's first process; None: it runs elsewhere.
        at_work: the workers; None: they have not started yet, and used nothing.
    """

    to: Receivers
    server: int | None
    at_work: Workers | None = None
    samples: list[Sample] = field(init=False, default_factory=list)
    _arrivals: Arrivals = field(init=False)

    def __post_init__(self) -> None:
        self._arrivals = Arrivals(self.to)
        self.take()

    def take(self) -> Sample:
        """Look at everything once."""
        cpu = {RECEIVER: self.to.cpu_seconds()} if self.to.pid is not None else {}
        if self.server is not None:
            cpu[STORE] = usage.cpu_seconds_of_all(self.server)
        if usage.is_measurable():
            cpu[WORKER] = 0.0 if self.at_work is None else self.at_work.cpu_seconds()
        memory = None if self.at_work is None else self.at_work.memory_mb()
        now = time.monotonic()
        self.samples.append(Sample(at=now, done=self._arrivals(), cpu=cpu, memory_mb=memory))
        return self.samples[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Follows parts of one run.

    Attributes:
        conn: the owner's.
        at_work: who must not die meanwhile.
        well: subscriptions whose deliveries must all have an outcome in the end.
        is_endless: there is more than will be waited for: do not ask for outcomes.
        watch: shows how it goes on.
    """

    conn: Connection[Any]
    at_work: Workers
    well: list[UUID]
    is_endless: bool
    watch: Watch

    def __call__(
        self, what: str, expected: int, sampler: Sampler, producer: Running | None = None
    ) -> Series:
        """Wait until so many requests have come, and no outcome of theirs is missing.

        Raises:
            StalledError: no more comes.
            WorkerError, ProducerError: one of those ended that the rest waits for.
        """
        ticker, moved = threading.Event(), sampler.samples[0]
        with self.watch(what, expected) as show:
            while True:
                self.at_work.check()
                if producer is not None:
                    producer.check()
                sample = sampler.take()
                show(min(sample.done, expected))
                if sample.done >= expected and (self.is_endless or self._is_settled()):
                    return Series(sampler.samples, expected)
                if sample.done > moved.done:
                    moved = sample
                if sample.at - moved.at > _STALLED_AFTER:
                    raise StalledError(f"{what}: {sample.done} of {expected}, and no more comes")
                ticker.wait(_TICK)

    def _is_settled(self) -> bool:
        return self.conn.execute(_SQL.count_unfinished, {"ids": self.well}).fetchone() == (0,)
