"""Leases: claimed in batches, renewed while requests run, taken back when they run out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from fencepost.model import Lease
from fencepost.store.arrays import bigints, texts, uuids
from fencepost.store.queries import load

_SQL = load("leases.sql")
FIRST = UUID(int=0)
_SUSPECT = 2
"""The lane of suspects."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this worker has just leased."""

    lease: Lease
    event_id: UUID
    event_type: str
    subscription_id: UUID
    attempt_count: int
    budget_start: int
    max_attempts: int
    first_attempt_at: datetime | None
    """Of this budget; None before its first attempt."""
    is_suspect: bool


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker can start now.

    Attributes:
        slots: how many requests it could send at once.
        share: how many of them a subscription may take of which nothing is known.
        shares: how many those may take whose answers are known.
        held: what each subscription already has in flight here.
        waited: why and until when a subscription's deliveries last had to wait: ``slot``,
            ``rate`` or ``order``, and database time.
        slots_full_at: when all slots were last in use, database time; None: never.
        may_take_suspect: whether it holds none.
    """

    slots: int
    share: int
    shares: Mapping[UUID, int] = field(default_factory=dict)
    held: Mapping[UUID, int] = field(default_factory=dict)
    waited: Mapping[UUID, tuple[str, datetime]] = field(default_factory=dict)
    slots_full_at: datetime | None = None
    may_take_suspect: bool = True


@dataclass(frozen=True, slots=True)
class Claims:
    """What one claim found.

    Attributes:
        claimed: the leases taken.
        now: database time of the claim.
        visited: how many subscriptions with something waiting were looked at.
        cursor: where the next claim goes on: behind the last subscription that was
            served, when the slots ran out; ``FIRST`` when this one came to the end.
        kept_back: subscriptions with more to send that a limit over all workers or their
            order keeps back, and which: ``slot``, ``rate`` or ``order``.
        ready_in: seconds until a rate limit lets the next of them go; None: none waits for it.
        due_in: seconds until something of those looked at becomes due; None: nothing will.
    """

    claimed: tuple[Claimed, ...]
    now: datetime
    visited: int
    cursor: UUID
    kept_back: Mapping[UUID, str]
    ready_in: float | None
    due_in: float | None


def claim_due(
    conn: Connection[Any],
    *,
    worker_id: str,
    lease: timedelta,
    room: Room,
    cursor: UUID = FIRST,
    visits: int = 200,
    turn: int = 0,
) -> Claims:
    """Lease what is due and can start now, a share of each subscription.

    Args:
        conn: the caller commits.
        worker_id: unique to this process.
        lease: how long the leases last.
        room: what can be started.
        cursor: from the claim before; the scan goes on behind it.
        visits: how many subscriptions to look at, at most.
        turn: 0 to 4, drawn each time: who gets the odd slot, live ones or replays. Counted
            up, it would keep step with the cursor, and some would never have a turn.
    """
    known = list(room.held.keys() | room.shares.keys() | room.waited.keys())
    waits = [room.waited.get(id_, (None, None)) for id_ in known]
    with conn.cursor(row_factory=dict_row, binary=True) as cur:
        rows = cur.execute(
            _SQL.claim_due,
            {
                "worker_id": worker_id,
                "lease": lease,
                "cursor": cursor,
                "visits": visits,
                "turn": turn,
                "slots": room.slots,
                "share": room.share,
                "suspects": int(room.may_take_suspect),
                "slots_full_at": room.slots_full_at,
                "known_subscriptions": uuids(known),
                "known_held": bigints(room.held.get(id_, 0) for id_ in known),
                "known_shares": bigints(room.shares.get(id_) for id_ in known),
                "known_waited_for": texts(reason for reason, _ in waits),
                "known_waited_at": [at for _, at in waits],
            },
        ).fetchall()
    first = rows[0]
    taken = [row for row in rows if row["id"] is not None]
    if len(taken) == room.slots:
        # Whoever comes after the last one served is served first next time. A suspect is
        # looked for in all that were visited: it says nothing of whose turn it was.
        served = [row for row in taken if row["lane"] != _SUSPECT]
        following = max(served, key=lambda row: row["n"])["subscription_id"] if served else cursor
    else:
        following = FIRST if first["visited"] < visits else first["last"]
    return Claims(
        claimed=tuple(_claimed(row, worker_id) for row in taken),
        now=first["now"],
        visited=first["visited"],
        cursor=following,
        kept_back=dict(zip(first["subscriptions"] or (), first["reasons"] or (), strict=True)),
        ready_in=first["ready_in"],
        due_in=first["due_in"],
    )


def _claimed(row: Mapping[str, Any], worker_id: str) -> Claimed:
    return Claimed(
        lease=Lease(row["id"], worker_id, row["fencing_token"]),
        event_id=row["event_id"],
        event_type=row["event_type"],
        subscription_id=row["subscription_id"],
        attempt_count=row["attempt_count"],
        budget_start=row["budget_start"],
        max_attempts=row["max_attempts"],
        first_attempt_at=row["first_attempt_at"],
        is_suspect=row["lane"] == _SUSPECT,
    )


@dataclass(frozen=True, slots=True)
class Attempted:
    """A delivery whose ATTEMPTED row is written: its request may leave.

    Attributes:
        id: the delivery.
        attempt_count: with this one.
        first_attempt_at: of this budget.
        now: the database's time of the row: the request's timestamp.
        is_repeat: an earlier try, whose answer was lost, had written the row. Nothing
            else of it is filled in: do not send, give the attempt back.
    """

    id: UUID
    attempt_count: int
    first_attempt_at: datetime
    now: datetime
    is_repeat: bool


def attempt_many(
    conn: Connection[Any],
    attempts: Sequence[tuple[Lease, str, int]],
    *,
    worker_id: str,
    lease: timedelta,
) -> dict[UUID, Attempted]:
    """Re-validate and renew leases, and count their attempts, just before the requests.

    Args:
        conn: the caller commits, and sends nothing before that.
        attempts: the leases, each with the masked URL and its configuration's version.
        worker_id: this process.
        lease: how long the leases last from now.

    Returns:
        The deliveries that may be sent. One that is missing was lost: the write was
        refused and noted, and nothing of it may leave.
    """
    with conn.cursor(row_factory=class_row(Attempted), binary=True) as cur:
        rows = cur.execute(
            _SQL.attempt_many,
            {
                "worker_id": worker_id,
                "lease": lease,
                "ids": uuids(lease_.delivery_id for lease_, _, _ in attempts),
                "tokens": bigints(lease_.fencing_token for lease_, _, _ in attempts),
                "urls": texts(url for _, url, _ in attempts),
                "config_versions": bigints(version for _, _, version in attempts),
            },
        ).fetchall()
    return {row.id: row for row in rows}


def renew_many(
    conn: Connection[Any], leases: Sequence[Lease], *, worker_id: str, lease: timedelta
) -> frozenset[Lease]:
    """Extend leases from now; give those that are lost.

    A row that another statement has locked is neither renewed nor lost: the next beat
    looks again.
    """
    missed = _ask(conn, _SQL.renew_many, leases, worker_id=worker_id, lease=lease)
    return missed and _ask(conn, _SQL.list_lost, missed, worker_id=worker_id)


def _ask(
    conn: Connection[Any], query: LiteralString, leases: Collection[Lease], **params: object
) -> frozenset[Lease]:
    """Give the leases that a statement names."""
    params["ids"] = uuids(held.delivery_id for held in leases)
    params["tokens"] = bigints(held.fencing_token for held in leases)
    named = set(conn.execute(query, params).fetchall())
    return frozenset(held for held in leases if (held.delivery_id, held.fencing_token) in named)


@dataclass(frozen=True, slots=True)
class Reaped:
    """A delivery taken back from a worker that let its lease run out."""

    id: UUID
    current_state: str
    from_state: str
    holder: str
    reason: str | None


def reap_expired(conn: Connection[Any], *, worker_id: str, batch: int = 200) -> list[Reaped]:
    """Take expired leases back: due at once, or dead when nothing is left to try.

    Args:
        conn: the caller commits.
        worker_id: who reaps, for the trail.
        batch: how many at most; as many found means that there may be more.
    """
    with conn.cursor(row_factory=class_row(Reaped)) as cur:
        return cur.execute(_SQL.reap_expired, {"worker_id": worker_id, "batch": batch}).fetchall()


def read_server_start(conn: Connection[Any]) -> tuple[datetime, datetime]:
    """Give when the server was started, and its time now."""
    row = conn.execute(_SQL.server_start).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return row[0], row[1]
