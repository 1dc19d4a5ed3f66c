"""The workers as people look at them: who reports, what each holds, what was refused to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.model import FencedWrite
from fencepost.records import Worker
from fencepost.store.queries import load

_SQL = load("workers.sql")

LATE_AFTER: Final = timedelta(seconds=15)
"""A beat comes every third of a lease, ten seconds by default, and may take a while."""
SILENT_AFTER: Final = timedelta(seconds=30)
"""A worker that has said nothing for so long counts as gone."""
_MOST: Final = 500


def list_workers(conn: Connection[Any]) -> Sequence[Worker]:
    """List the workers, those that reported last first, stopped ones at the end."""
    with conn.cursor(row_factory=class_row(Worker)) as cur:
        return cur.execute(_SQL.list_workers, {"limit": _MOST}).fetchall()


def list_fenced(conn: Connection[Any], *, limit: int = 50) -> Sequence[FencedWrite]:
    """List the late writes that fencing refused, the latest first."""
    with conn.cursor(row_factory=class_row(FencedWrite)) as cur:
        return cur.execute(_SQL.list_fenced, {"limit": limit}).fetchall()


def health_of(worker: Worker, now: datetime) -> str:
    """Say ``alive``, ``late``, ``silent`` or ``stopped``; ``now`` is by the server's clock."""
    if worker.state == "stopped" and not worker.leases:
        return "stopped"
    if worker.beat_at is None or now - worker.beat_at > SILENT_AFTER:
        return "silent"
    return "late" if now - worker.beat_at > LATE_AFTER else "alive"
