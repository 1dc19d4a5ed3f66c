"""What the database says about its own health, for ``fencepost doctor``."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from fencepost.store.queries import load

_SQL = load("checkup.sql")

SILENT: Final = timedelta(seconds=60)
"""After so long without a sign a worker counts as gone."""


@dataclass(frozen=True, slots=True)
class Server:
    """The server and the settings that its durability stands on."""

    version: int
    clock: float
    """Seconds since the epoch."""
    synchronous_commit: str
    fsync: str
    autovacuum: str


@dataclass(frozen=True, slots=True)
class WorkerSign:
    """When a worker that has not said goodbye was heard last."""

    worker_id: str
    version: str
    silent_seconds: float


@dataclass(frozen=True, slots=True)
class SealedUrl:
    """A subscription's URL as it is stored."""

    id: UUID
    name: str
    endpoint_sealed: bytes = field(repr=False)


def read_server(conn: Connection[Any]) -> Server:
    """Ask the server who it is, and what time it has."""
    with conn.cursor(row_factory=class_row(Server)) as cur:
        return cast("Server", cur.execute(_SQL.read_server).fetchone())


def sleeping_guards(conn: Connection[Any]) -> list[str]:
    """List the triggers of deliveries and trail that somebody has switched off or weakened."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cur.execute(_SQL.sleeping_guards).fetchall()


def has_partition_of_tomorrow(conn: Connection[Any]) -> bool:
    """Say whether the trail has a place for tomorrow's deliveries."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return bool(cur.execute(_SQL.has_partition_of_tomorrow).fetchone())


def read_workers(conn: Connection[Any]) -> list[WorkerSign]:
    """List the workers that have not said goodbye, the last heard first."""
    with conn.cursor(row_factory=class_row(WorkerSign)) as cur:
        return cur.execute(_SQL.read_workers).fetchall()


def is_worker_alive(conn: Connection[Any]) -> bool:
    """Say whether any worker has given a sign lately."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return bool(cur.execute(_SQL.is_worker_alive, {"silence": SILENT}).fetchone())


def oldest_in_outbox(conn: Connection[Any]) -> float | None:
    """Give the seconds that the oldest event has waited for its fan-out; None: none waits."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("float | None", cur.execute(_SQL.oldest_in_outbox).fetchone())


def oldest_expired_lease(conn: Connection[Any]) -> float | None:
    """Give the seconds since the first lease ran out that nobody took back; None: no such."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("float | None", cur.execute(_SQL.oldest_expired_lease).fetchone())


def read_sealed_endpoints(conn: Connection[Any], *, most: int = 1000) -> list[SealedUrl]:
    """Read the sealed URLs of subscriptions that were not removed."""
    with conn.cursor(row_factory=class_row(SealedUrl), binary=True) as cur:
        return cur.execute(_SQL.read_sealed_endpoints, {"most": most}).fetchall()


def waiting_key_ids(conn: Connection[Any], *, most: int = 1000) -> list[str]:
    """List the keys that some waiting deliveries' payloads are sealed with."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cur.execute(_SQL.waiting_key_ids, {"most": most}).fetchall()
