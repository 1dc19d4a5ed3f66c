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

_PACKAGES: Final = ("psycopg", "requests", "urllib3", "pycurl", "cryptography")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Percentiles of milliseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run; None is what could not be measured here, or makes no sense for its plan.

    Attributes:
        plan: what was asked for.
        deliveries_per_second: from the first claim of a backlog to its last outcome.
        published_to_delivered_per_second: from the first commit of a producer to the last
            outcome, sealing and fan-out included.
        steady_rate: events per second while waits were measured.
        queue_wait_ms: from when a delivery could be sent to when a worker took it, at that rate.
        ingest_ms: from the producer's statement to when it could be sent, at that rate.
        worker_cpu_us: processor time of the workers per delivery, of the backlog.
        postgres_cpu_us: likewise, of all processes of the server.
        worker_rss_mb: the most memory that one worker has occupied.
        receiver: what received.
        receiver_per_second: how much it can, alone.
        server: version of PostgreSQL and what it does for durability.
        broken: invariants that did not hold, with the rows that break them.
        timeline: the story of a delivery of this run, taken at random.
    """

    plan: Plan
    deliveries_per_second: float | None
    published_to_delivered_per_second: float | None
    steady_rate: float | None
    queue_wait_ms: Waits | None
    ingest_ms: Waits | None
    worker_cpu_us: float | None
    postgres_cpu_us: float | None
    worker_rss_mb: float | None
    receiver: str
    receiver_per_second: float
    server: Mapping[str, str]
    broken: Mapping[str, Sequence[object]] = field(default_factory=dict)
    timeline: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the run as JSON has it."""
        found = {
            name: getattr(self, name)
            for name in (
                "deliveries_per_second", "published_to_delivered_per_second", "steady_rate",
                "worker_cpu_us", "postgres_cpu_us", "worker_rss_mb", "receiver_per_second",
            )
        }  # fmt: skip
        return {
            **{name: _rounded(value) for name, value in found.items()},
            "queue_wait_ms": _waits(self.queue_wait_ms),
            "ingest_ms": _waits(self.ingest_ms),
            "receiver": self.receiver,
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
