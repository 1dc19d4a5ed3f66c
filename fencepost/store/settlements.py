"""Settlements: how a lease ends when its holder ends it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, scalar_row

from fencepost.model import ErrorClass, Lease
from fencepost.states import Cause, Fact, State, move
from fencepost.store.arrays import bigints, bools, byteas, floats, jsonbs, texts, uuids
from fencepost.store.queries import load

_SQL = load("settlements.sql")

_OUTCOMES = frozenset({Cause.SUCCEED, Cause.RETRY, Cause.EXHAUST, Cause.REJECT, Cause.REFUSE})


@dataclass(frozen=True, slots=True)
class Settlement:
    """One lease to give back, and what to say of it.

    Attributes:
        lease: must still be current.
        state: LEASED or ATTEMPTED, as the holder believes.
        cause: SUCCEED, RETRY, EXHAUST or REJECT after a request; REFUSE or RELEASE before.
        delay: until it is due again; for RETRY and RELEASE and nothing else.
        status: what the receiver answered.
        latency_ms: of the request.
        error: the class of the failure.
        message: one line for a person.
        detail: JSON beside the outcome in the trail.
        reason: why it is dead, released or retried as it is.
        response: what to keep of the answer, sealed.
        is_ours: the fault was ours after ATTEMPTED; the attempt does not count.
        pauses: the answer pauses the subscription.
        was_aborted: its lease was lost while the request was open, and no outcome followed.
    """

    lease: Lease
    state: State
    cause: Cause
    delay: timedelta | None = None
    status: int | None = None
    latency_ms: int | None = None
    error: ErrorClass | None = None
    message: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    reason: str | None = None
    response: bytes | None = None
    is_ours: bool = False
    pauses: bool = False
    was_aborted: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one settlement.

    Attributes:
        id: the delivery.
        settled: written just now.
        fenced: refused and noted: the lease was not ours any more.
            Neither of the two: it had been written before, by a try whose answer was lost.
        paused: it paused its subscription.
        still_to_pause: the subscription that it could not pause: it was paused already, or
            somebody has it locked; for ``pause_gone``.
    """

    id: UUID
    settled: bool
    fenced: bool
    paused: bool
    still_to_pause: UUID | None


def settle_many(
    conn: Connection[Any], settlements: Sequence[Settlement], *, worker_id: str
) -> list[Settled]:
    """Record outcomes, refusals and releases, each guarded by its own lease.

    Moves and trail rows are one statement, which may be run again when the answer to it
    was lost: what is ours and written already is left alone. A lease that is lost writes
    nothing to the delivery or its trail and is noted among the fenced writes.

    Args:
        conn: the caller commits.
        settlements: at most one for a delivery; 100 to 400 at a time are cheapest.
        worker_id: this process.
    """
    moves = [move(item.state, item.cause) for item in settlements]
    with conn.cursor(row_factory=class_row(Settled), binary=True) as cur:
        return cur.execute(
            _SQL.settle_many,
            {
                "worker_id": worker_id,
                "ids": uuids(item.lease.delivery_id for item in settlements),
                "tokens": bigints(item.lease.fencing_token for item in settlements),
                "from_states": texts(item.state for item in settlements),
                "to_states": texts(found.to for found in moves),
                "facts": texts(
                    found.rows[0] if isinstance(found.rows[0], Fact) else None for found in moves
                ),
                "is_outcomes": bools(item.cause in _OUTCOMES for item in settlements),
                "delays": floats(
                    None if item.delay is None else item.delay.total_seconds()
                    for item in settlements
                ),
                "refunds": bigints(item.is_ours for item in settlements),
                "statuses": bigints(item.status for item in settlements),
                "latencies": bigints(item.latency_ms for item in settlements),
                "errors": texts(item.error for item in settlements),
                "messages": texts(item.message for item in settlements),
                "details": jsonbs(_detail(item) for item in settlements),
                "reasons": texts(item.reason for item in settlements),
                "responses": byteas(item.response for item in settlements),
                "pauses": bools(item.pauses for item in settlements),
                "notes": texts(
                    "heartbeat" if item.was_aborted else found.to
                    for item, found in zip(settlements, moves, strict=True)
                ),
            },
        ).fetchall()


def _detail(item: Settlement) -> Mapping[str, object]:
    detail: dict[str, object] = {}
    if item.error is not None:
        detail["class"] = item.error
    if item.cause is Cause.RELEASE:
        detail["reason"] = item.reason
    return {**detail, **item.detail} if detail else item.detail


def pause_gone(conn: Connection[Any], ids: Collection[UUID], *, worker_id: str) -> set[UUID]:
    """Pause subscriptions whose endpoints are gone; give those that are locked even now."""
    with conn.cursor(row_factory=scalar_row) as cur:
        rows = cur.execute(_SQL.pause_gone, {"worker_id": worker_id, "ids": list(ids)})
        return set(rows.fetchall())


def note_health(
    conn: Connection[Any], *, failing: Iterable[UUID], succeeding: Iterable[UUID]
) -> None:
    """Note since when subscriptions fail, and forget it at their first success."""
    if ids := list(failing):
        conn.execute(_SQL.note_failing, {"ids": ids})
    if ids := list(succeeding):
        conn.execute(_SQL.note_succeeding, {"ids": ids})


def pause_failing(
    conn: Connection[Any],
    ids: Collection[UUID],
    *,
    worker_id: str,
    after: timedelta = timedelta(days=5),
) -> list[str]:
    """Pause those of these subscriptions that have failed for too long; give their ids.

    Args:
        conn: the caller commits.
        ids: have failed just now, and are noted.
        worker_id: for the log of actions.
        after: how long without one success is too long.
    """
    params = {"worker_id": worker_id, "ids": list(ids), "after": after}
    with conn.cursor(row_factory=scalar_row) as cur:
        return cur.execute(_SQL.pause_failing, params).fetchall()
