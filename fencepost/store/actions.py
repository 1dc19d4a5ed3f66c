"""The log of what people did and were refused, and what every change of theirs needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from psycopg import Connection, sql
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from fencepost.cursors import Page, Position
from fencepost.errors import NotInTransactionError
from fencepost.lines import check_line
from fencepost.records import Action
from fencepost.store.paging import fetch_page
from fencepost.store.queries import load

_SQL = load("actions.sql")

Outcome = Literal["done", "denied", "refused"]

LONGEST_REASON: Final = 300


def check_reason(reason: object | None) -> str | None:
    """Accept a reason: one line, or none. InvalidInputError names ``reason``."""
    if reason is None or reason == "":
        return None
    return check_line(reason, field="reason", longest=LONGEST_REASON)


def need_transaction(conn: Connection[Any]) -> None:
    """Refuse a connection on which two statements would be two transactions.

    Raises:
        NotInTransactionError: it is in autocommit, outside ``conn.transaction()``.
    """
    if conn.autocommit and conn.info.transaction_status == TransactionStatus.IDLE:
        raise NotInTransactionError("This change and its log are one transaction; begin one first.")


def log_action(
    conn: Connection[Any],
    *,
    actor: str,
    action: str,
    target: str,
    params: Mapping[str, object] | None = None,
    affected: int | None = None,
    outcome: Outcome = "done",
    request_id: str | None = None,
) -> None:
    """Write down what somebody did, or was refused.

    The functions that change something do it themselves; what is refused is logged by
    whoever refuses, in a transaction that commits.

    Args:
        conn: the caller commits.
        actor: ``user dana``, ``token ci``, ``cli root``: who it was, and by which door.
        action: what it was, subject first: ``delivery.replay``.
        target: the id of what it was done to; ``-`` for several at once.
        params: what was asked for; never a secret.
        affected: how many things changed.
        outcome: ``denied``: by role; ``refused``: by the state of the thing or a bad value.
        request_id: of the HTTP request.
    """
    conn.execute(
        _SQL.log_action,
        {
            "actor": actor,
            "action": action,
            "target": target,
            "params": None if params is None else Jsonb(dict(params)),
            "affected": affected,
            "outcome": outcome,
            "request_id": request_id,
        },
    )


def list_actions(
    conn: Connection[Any],
    *,
    actor: str | None = None,
    target: str | None = None,
    limit: int = 50,
    after: Position | None = None,
    before: Position | None = None,
) -> Page[Action]:
    """List actions, the newest first; of one actor or on one thing where given."""
    conditions = [_SQL.everything]
    conditions += [] if actor is None else [_SQL.of_actor]
    conditions += [] if target is None else [_SQL.on_target]
    return fetch_page(
        conn,
        sql.SQL(_SQL.list_actions),
        {"actor": actor, "target": target},
        row_factory=class_row(Action),
        position=lambda row: Position(row.id),
        limit=limit,
        after=after,
        before=before,
        parts={"conditions": sql.SQL(" AND ").join(map(sql.SQL, conditions))},
    )
