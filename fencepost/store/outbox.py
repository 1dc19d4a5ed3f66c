"""The outbox: what producers committed becomes deliveries, all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.store.queries import load

_SQL = load("outbox.sql")
_COUNT_MATCHES = _SQL.count_matches.replace("{matches}", _SQL.matches)
_FAN_OUT = _SQL.fan_out.replace("{matches}", _SQL.matches)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A committed event that has met no subscription yet.

    ``payload`` is there when it came in clear, and None when its producer sealed it.
    """

    id: int
    event_id: UUID
    payload: bytes | None = field(repr=False)
    event_type: str
    content_type: str
    is_keyed: bool
    """It has an idempotency key."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What fan-out adds to an event that came in clear.

    ``mac`` tells its payload from another one under the same idempotency key; None
    without a key.
    """

    key_id: str
    sealed: bytes = field(repr=False)
    mac: bytes | None


def within(conn: Connection[Any], rows: Sequence[OutboxRow], *, most: int) -> list[OutboxRow]:
    """Give the first of these rows that meet no more than so many subscriptions together.

    One row is always among them, however many it meets.
    """
    if len(rows) == 1:
        return list(rows)
    kinds = {row.event_type for row in rows}
    meets = dict(conn.execute(_COUNT_MATCHES, {"event_types": list(kinds)}).fetchall())
    totals = accumulate(meets.get(row.event_type, 0) for row in rows)
    fitting = takewhile(lambda total: total <= most, totals)
    return list(rows[: max(1, sum(1 for _ in fitting))])


def take_fan_out(conn: Connection[Any]) -> bool:
    """Become the one worker that fans out, until the transaction ends; False: another is it."""
    row = conn.execute(_SQL.take_fan_out).fetchone()
    return row is not None and bool(row[0])


def lock_outbox(conn: Connection[Any], batch: int) -> list[OutboxRow]:
    """Take the oldest outbox rows that no other worker has in hand.

    Args:
        conn: inside a transaction, which ``fan_out`` ends.
        batch: how many at most.
    """
    with conn.cursor(row_factory=class_row(OutboxRow)) as cur:
        return cur.execute(_SQL.lock_outbox, {"batch": batch}).fetchall()


def fan_out(
    conn: Connection[Any],
    rows: Sequence[tuple[OutboxRow, Sealed | None]],
    *,
    worker_id: str,
) -> int:
    """Turn locked outbox rows into deliveries to every matching subscription.

    Args:
        conn: in the transaction that locked them.
        rows: each with what seals it when it was in clear, else None.
        worker_id: this process, for the trail.

    Returns:
        How many deliveries were made; an event that meets no subscription makes none.
    """
    row = conn.execute(
        _FAN_OUT,
        {
            "worker_id": worker_id,
            "event_types": list({row.event_type for row, _ in rows}),
            "outbox_ids": [row.id for row, _ in rows],
            "key_ids": [sealed and sealed.key_id for _, sealed in rows],
            "sealed": [sealed and sealed.sealed for _, sealed in rows],
            "macs": [sealed and sealed.mac for _, sealed in rows],
        },
    ).fetchone()
    return 0 if row is None else int(row[1])


def ensure_partitions(conn: Connection[Any]) -> int:
    """Make the trail's partitions for the coming days; give how many were new."""
    row = conn.execute(_SQL.ensure_partitions).fetchone()
    return 0 if row is None else int(row[0])
