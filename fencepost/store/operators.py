"""What people do to deliveries.

Each function that changes something needs a transaction of its caller: it writes what it
did to the log of actions as well, and both hold or neither does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, dict_row

from fencepost.errors import ConflictError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery
from fencepost.moments import format_moment
from fencepost.states import State
from fencepost.store.actions import check_reason, log_action, need_transaction
from fencepost.store.conditions import pin, where
from fencepost.store.deliveries import get_delivery
from fencepost.store.queries import load

__all__ = [
    "DiscardBatch", "DiscardPlan", "discard_delivery", "discard_matching", "log_action",
    "plan_discard", "replay_delivery",
]  # fmt: skip

_SQL = load("operators.sql")
_FIRST_ID = UUID(int=0)


def replay_delivery(
    conn: Connection[Any], delivery_id: UUID, *, actor: str, reason: str | None = None
) -> Delivery:
    """Send a delivery again: a RETRIED one now, one that is DELIVERED or in the DLQ anew.

    Args:
        conn: inside a transaction; the caller commits.
        delivery_id: which one; it keeps its id and its ``webhook-id``.
        actor: who wants it.
        reason: why; shown in its timeline.

    Returns:
        The delivery as it is now: RETRIED and due.

    Raises:
        NotFoundError: there is none.
        ConflictError: a worker holds it, it waits to be replayed already, its subscription
            was removed or its payload erased; nothing was changed.
    """
    need_transaction(conn)
    reason = check_reason(reason)
    moves = sql.SQL(_SQL.replay_moves).format(guard=sql.SQL(_SQL.any_row))
    query = sql.SQL(_SQL.replay_delivery).format(moves=moves)
    params = {"id": delivery_id, "actor": actor, "reason": reason, "replay_id": None}
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, params).fetchone()
        if found is not None and found["obstacle"] == "moved":
            # Somebody was faster. Its row is locked now, so a second look is the last.
            found = cur.execute(query, params).fetchone()
    if found is None:
        raise NotFoundError(f"There is no delivery {delivery_id}.")
    if found["obstacle"] is not None:
        raise ConflictError(f"Delivery {delivery_id} {_why_not_replayed(found)}")
    _log(conn, found, actor=actor, action="delivery.replay", target=delivery_id, reason=reason)
    return get_delivery(conn, delivery_id)


def _why_not_replayed(found: Mapping[str, Any]) -> str:
    state = found["from_state"]
    match found["obstacle"]:
        case "state" if state in (State.LEASED, State.ATTEMPTED):
            return f"is {state}: a worker has it in hand; wait for the outcome."
        case "state":
            return f"is {state}: it is sent without help; nothing to replay yet."
        case "removed":
            return f"is {state}, but its subscription was removed: there is nowhere to send it."
        case "erased":
            return f"is {state}, but its payload was erased: there is nothing to send."
        case _:
            return (
                f"is {state}: it was replayed by {found['replayed_by']} at"
                f" {format_moment(found['replayed_at'])} and waits for a worker."
            )


def discard_delivery(
    conn: Connection[Any], delivery_id: UUID, *, actor: str, reason: str | None = None
) -> Delivery:
    """Give a delivery up: it will not be sent, and bulk replays pass over it.

    Args:
        conn: inside a transaction; the caller commits.
        delivery_id: one that is ENCRYPTED, RETRIED or in the DLQ.
        actor: who gives it up.
        reason: why; shown in its timeline.

    Returns:
        The delivery as it is now: in the DLQ, with ``discarded_at``.

    Raises:
        NotFoundError: there is none.
        ConflictError: a worker holds it, it was delivered, or it is discarded already.
    """
    need_transaction(conn)
    reason = check_reason(reason)
    moves = sql.SQL(_SQL.discard_moves).format(guard=sql.SQL(_SQL.any_row))
    query = sql.SQL(_SQL.discard_delivery).format(moves=moves)
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, {"id": delivery_id} | _given_up(actor, reason)).fetchone()
    if found is None:
        raise NotFoundError(f"There is no delivery {delivery_id}.")
    if found["obstacle"] == "discarded":
        raise ConflictError(f"Delivery {delivery_id} is DLQ and discarded already.")
    if found["obstacle"] is not None:
        raise ConflictError(
            f"Delivery {delivery_id} is {found['from_state']}: only one that is ENCRYPTED,"
            " RETRIED or in the DLQ can be discarded."
        )
    _log(conn, found, actor=actor, action="delivery.discard", target=delivery_id, reason=reason)
    return get_delivery(conn, delivery_id)


@dataclass(frozen=True, slots=True)
class DiscardPlan:
    """What a bulk discard would do, counted exactly.

    Attributes:
        scope: pinned, its states written out.
        snapshot: what had moved by then is in it, later arrivals are not.
        matched: deliveries in the scope.
        eligible: of those, the ones that can be discarded.
    """

    scope: DeliveryFilter
    snapshot: str
    matched: int
    eligible: int


@dataclass(frozen=True, slots=True)
class DiscardBatch:
    """One batch of a bulk discard: where the next begins; None when it was the last."""

    discarded: int
    last_id: UUID | None


def plan_discard(conn: Connection[Any], scope: DeliveryFilter) -> DiscardPlan:
    """Count what a bulk discard would do; a scope without ``state`` means the DLQ.

    Args:
        conn: reads only.
        scope: which deliveries.
    """
    scope = pin(conn, scope.of_dead_letters())
    conditions, params = where(scope)
    query = sql.SQL(_SQL.plan_discard).format(conditions=conditions)
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, params).fetchone()
    return DiscardPlan(scope, **(found or {}))


def discard_matching(
    conn: Connection[Any],
    plan: DiscardPlan,
    *,
    actor: str,
    reason: str | None = None,
    after: UUID | None = None,
    limit: int = 500,
) -> DiscardBatch:
    """Discard the next batch of a plan; call again with ``after`` until ``last_id`` is None.

    A row that has moved since the plan was made is passed over.

    Args:
        conn: inside a transaction; the caller commits each batch.
        plan: from ``plan_discard``.
        actor: who gives them up.
        reason: why; shown in their timelines.
        after: ``last_id`` of the batch before.
        limit: rows in this batch.
    """
    need_transaction(conn)
    reason = check_reason(reason)
    conditions, params = where(plan.scope)
    guard = sql.SQL(_SQL.unmoved_since)
    query = sql.SQL(_SQL.discard_matching).format(
        conditions=conditions, guard=guard, moves=sql.SQL(_SQL.discard_moves).format(guard=guard)
    )
    params |= {"snapshot": plan.snapshot, "after": after or _FIRST_ID, "limit": limit}
    with conn.cursor(row_factory=class_row(DiscardBatch)) as cur:
        cur.execute(query, params | _given_up(actor, reason))
        batch = cur.fetchone() or DiscardBatch(0, None)
    if batch.discarded:
        asked = {"filter": plan.scope.to_json(), "reason": reason}
        log_action(
            conn,
            actor=actor,
            action="deliveries.discard",
            target="-",
            params=asked,
            affected=batch.discarded,
        )
    return batch


def _given_up(actor: str, reason: str | None) -> dict[str, str | None]:
    dead_reason = "discarded" if reason is None else f"discarded: {reason}"
    return {"actor": actor, "reason": reason, "dead_reason": dead_reason}


def _log(
    conn: Connection[Any],
    found: Mapping[str, Any],
    *,
    actor: str,
    action: str,
    target: UUID,
    reason: str | None,
) -> None:
    asked = {"reason": reason, "from_state": found["from_state"]}
    log_action(conn, actor=actor, action=action, target=str(target), params=asked, affected=1)
