"""The log of what people did and were refused, and what every change of theirs needs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import Connection, sql
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from fencepost.action_filter import ActionFilter, Outcome
from fencepost.cursors import Page, Position
from fencepost.errors import NotInTransactionError
from fencepost.lines import check_line
from fencepost.records import Action
from fencepost.store.paging import fetch_page
from fencepost.store.queries import load

_SQL = load("actions.sql")

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
    scope: ActionFilter | None = None,
    *,
    limit: int = 50,
    after: Position | None = None,
    before: Position | None = None,
) -> Page[Action]:
    """List actions, the newest first.

    Args:
        conn: reads only.
        scope: which ones; relative bounds count back from the database's clock.
        limit: of one page, 1 to 200.
        after: continue with older ones, right after this row.
        before: the newer ones right before this row; never both.
    """
    scope = scope or ActionFilter()
    conditions = {
        _SQL.of_actor: scope.actor,
        _SQL.of_action: scope.action,
        _SQL.on_target: scope.target,
        _SQL.with_outcome: scope.outcome,
        _SQL.since: scope.since,
        _SQL.until: scope.until,
    }
    wanted = [_SQL.everything, *(each for each, value in conditions.items() if value is not None)]
    return fetch_page(
        conn,
        sql.SQL(_SQL.list_actions),
        {
            "actor": scope.actor,
            "action": scope.action,
            "target": scope.target,
            "outcome": scope.outcome,
            **_bound("since", scope.since),
            **_bound("until", scope.until),
        },
        row_factory=class_row(Action),
        position=lambda row: Position(row.id),
        limit=limit,
        after=after,
        before=before,
        parts={"conditions": sql.SQL(" AND ").join(map(sql.SQL, wanted))},
    )


def _bound(name: str, bound: datetime | timedelta | None) -> dict[str, object]:
    """Give a bound as a moment, or as a time ago; what is not given counts as neither."""
    is_ago = isinstance(bound, timedelta)
    return {f"{name}_at": None if is_ago else bound, f"{name}_ago": bound if is_ago else None}
