"""The registry of workers: shown to people, needed by nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from psycopg import Connection

from fencepost.store.queries import load

_SQL = load("registry.sql")


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker says of itself at each beat.

    Attributes:
        state: running, draining or stopped.
        attempts_per_minute: over the last five minutes.
        p95_ms: of those requests, what 95 % did not exceed; None when there was none.
    """

    worker_id: str
    node: str
    version: str
    transport: str
    concurrency: int
    in_flight: int
    state: str
    attempts_per_minute: float
    p95_ms: float | None


def beat(conn: Connection[Any], what: Beat) -> None:
    """Say that a worker is alive, or has stopped."""
    conn.execute(_SQL.beat, asdict(what))


def forget_workers(conn: Connection[Any], *, after: timedelta = timedelta(days=7)) -> None:
    """Drop the workers that have been silent for long."""
    conn.execute(_SQL.forget_workers, {"after": after})
