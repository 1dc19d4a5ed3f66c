"""What people do to deliveries.

Each function that changes something needs a transaction of its caller: it writes what it
did to the log of actions as well, and both hold or neither does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import dict_row

from fencepost.errors import ConflictError, NotFoundError
from fencepost.model import Delivery
from fencepost.moments import format_moment
from fencepost.states import State
from fencepost.store.actions import check_reason, log_action, need_transaction
from fencepost.store.deliveries import get_delivery
from fencepost.store.queries import load

__all__ = ["discard_delivery", "given_up", "log_action", "replay_delivery"]

_SQL = load("operators.sql")


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
        found = cur.execute(query, {"id": delivery_id} | given_up(actor, reason)).fetchone()
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


def given_up(actor: str | None, reason: str | None) -> dict[str, str | None]:
    """Write what ``discard_moves`` needs: who, why, and both in the reason of the DLQ."""
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
