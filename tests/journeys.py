"""Deliveries brought to any state, by the worker's own statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection, sql

from fencepost.model import ErrorClass, Lease
from fencepost.states import Cause, State
from fencepost.store.leases import Room, attempt_many, claim_due
from fencepost.store.settlements import Settlement, settle_many

WORKER = "a-1"
LEASE = timedelta(seconds=30)


@contextmanager
def acting_as(conn: Connection[Any], role: str) -> Iterator[None]:
    """Take the rights of ``fencepost_<role>`` for a while, in a superuser's transaction."""
    conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(f"fencepost_{role}")))
    yield
    conn.execute("RESET ROLE")


def lease(conn: Connection[Any], ids: Sequence[UUID]) -> list[Lease]:
    """Claim deliveries; no other may be due."""
    room = Room(slots=1000, share=1000)
    claimed = claim_due(conn, worker_id=WORKER, lease=LEASE, room=room).claimed
    assert {one.lease.delivery_id for one in claimed} == set(ids)
    return [one.lease for one in claimed]


def attempt(conn: Connection[Any], ids: Sequence[UUID]) -> list[Lease]:
    """Claim deliveries and send their requests off."""
    leases = lease(conn, ids)
    attempt_many(conn, [(one, "http://r/", 1) for one in leases], worker_id=WORKER, lease=LEASE)
    return leases


def deliver(conn: Connection[Any], ids: Sequence[UUID]) -> None:
    """Deliver at the first attempt from now."""
    _settle(conn, attempt(conn, ids), Cause.SUCCEED, status=200, latency_ms=80)


def fail(conn: Connection[Any], ids: Sequence[UUID], *, delay: float = 3600) -> None:
    """Fail one attempt each: RETRIED, due in ``delay`` seconds."""
    wait = timedelta(seconds=delay)
    _settle(conn, attempt(conn, ids), Cause.RETRY, **_FAILED, delay=wait)


def bury(conn: Connection[Any], ids: Sequence[UUID], *, status: int = 404) -> None:
    """Fail for good: into the DLQ."""
    error = ErrorClass.HTTP_4XX if status < 500 else ErrorClass.HTTP_5XX
    outcome = {**_FAILED, "status": status, "error": error, "reason": "http_4xx"}
    _settle(conn, attempt(conn, ids), Cause.REJECT, **outcome)


_FAILED: dict[str, Any] = {
    "status": 503,
    "latency_ms": 105,
    "error": ErrorClass.HTTP_5XX,
    "message": "HTTP 503",
}


def _settle(conn: Connection[Any], leases: Sequence[Lease], cause: Cause, **more: Any) -> None:
    settlements = [Settlement(one, State.ATTEMPTED, cause, **more) for one in leases]
    settled = settle_many(conn, settlements, worker_id=WORKER)
    assert all(one.settled for one in settled)
