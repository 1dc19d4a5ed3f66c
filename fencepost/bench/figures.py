"""What a benchmark found, under the names that other programs read."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from fencepost import __version__
from fencepost.bench.plan import Plan
from fencepost.bench.trail import Waits

_PACKAGES: Final = ("psycopg", "requests", "urllib3", "pycurl", "cryptography")


_ENOUGH: Final = 2.0
"""How many times faster than the figure a receiver must be, to have no part in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What the part found that drains a backlog; None is what could not be measured here.

    Attributes:
        per_second: deliveries, while a tenth to nine tenths of them were done.
        worker_cpu_us: processor time of the workers for each delivery, in that time.
        postgres_cpu_us: likewise, of all processes of the server.
        receiver_cpu_us: likewise, of the receiver.
        memory_mb: what the largest worker occupied when so many per cent were done.
    """

    per_second: float | None
    worker_cpu_us: float | None
    postgres_cpu_us: float | None
    receiver_cpu_us: float | None
    memory_mb: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """What the part found that publishes at a steady rate; None: nothing was delivered.

    Attributes:
        rate: events published each second.
        queue_wait_ms: from when a delivery could be sent to when a worker took it.
        ingest_ms: from the producer's statement to when it could be sent.
    """

    rate: float
    queue_wait_ms: Waits | None
    ingest_ms: Waits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run; None is what its plan leaves out, or what could not be measured here.

    Attributes:
        plan: what was asked for.
        drained: the first part.
        published_to_delivered_per_second: the second part: from the first commit of a producer
            to the last outcome, sealing and fan-out included.
        steady: the third part.
        worker_rss_mb: the most memory that one worker has occupied.
        receiver: what received.
        receiver_per_second: how much it can, alone.
        server: version of PostgreSQL and what it does for durability.
        broken: invariants that did not hold, with the rows that break them.
        timeline: the story of a delivery of this run, taken at random.
    """

    plan: Plan
    drained: Drained | None
    published_to_delivered_per_second: float | None
    steady: Steady | None
    worker_rss_mb: float | None
    receiver: str
    receiver_per_second: float
    server: Mapping[str, str]
    broken: Mapping[str, Sequence[object]] = field(default_factory=dict)
    timeline: Sequence[str] = ()

    @property
    def is_limited_by_receiver(self) -> bool:
        """The receiver alone is hardly faster than what was measured with it."""
        drained = self.drained.per_second if self.drained else None
        reached = max(drained or 0.0, self.published_to_delivered_per_second or 0.0)
        return self.receiver_per_second < _ENOUGH * reached

    def to_json(self) -> dict[str, Any]:
        """Give the run as JSON has it."""
        drained, steady = self.drained, self.steady
        found = {
            "deliveries_per_second": drained.per_second if drained else None,
            "published_to_delivered_per_second": self.published_to_delivered_per_second,
            "steady_rate": steady.rate if steady else None,
            "worker_cpu_us": drained.worker_cpu_us if drained else None,
            "postgres_cpu_us": drained.postgres_cpu_us if drained else None,
            "receiver_cpu_us": drained.receiver_cpu_us if drained else None,
            "worker_rss_mb": self.worker_rss_mb,
            "receiver_per_second": self.receiver_per_second,
        }
        return {
            **{name: _rounded(value) for name, value in found.items()},
            "memory_mb": {
                str(share): _rounded(memory)
                for share, memory in (drained.memory_mb if drained else {}).items()
            },
            "queue_wait_ms": _waits(steady.queue_wait_ms if steady else None),
            "ingest_ms": _waits(steady.ingest_ms if steady else None),
            "receiver": self.receiver,
            "receiver_is_limit": self.is_limited_by_receiver,
            "invariants": {name: list(map(str, rows)) for name, rows in self.broken.items()},
            "parameters": asdict(self.plan),
            "machine": machine(),
            "versions": {**versions(), "postgresql": self.server["version"]},
            "server": dict(self.server),
            "timeline": list(self.timeline),
        }


def machine() -> dict[str, Any]:
    """Say what this runs on."""
    return {
        "system": platform.platform(terse=True),
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_mb": int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
    }


def versions() -> dict[str, str]:
    """Say what of ours and others' is measured."""
    found = {"fencepost": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _first(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(values, None)


def _waits(waits: Waits | None) -> dict[str, float] | None:
    if waits is None:
        return None
    return {name: round(value, 2) for name, value in asdict(waits).items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
