"""Bulk discards, as people order them: a draft with exact counts, then start, cancel.

The functions that change something need a transaction of their caller, and write what
they did to the log of actions in it. The work itself is done by ``giving_up``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.records import Discard
from fencepost.store.actions import check_reason, log_action, need_transaction
from fencepost.store.conditions import pin, where
from fencepost.store.queries import load
from fencepost.store.replays import DRAFT_LIFE

_SQL = load("discards.sql")
_COLUMNS = sql.SQL(_SQL.columns)

_MOST_RUNNING: Final = 20


def draft_discard(
    conn: Connection[Any], scope: DeliveryFilter, *, reason: str | None = None, actor: str
) -> Discard:
    """Fix what would be given up, and count it; touches no delivery.

    Args:
        conn: inside a transaction; the caller commits.
        scope: which deliveries; without ``state`` those in the DLQ.
        reason: why; needed at the start at the latest.
        actor: who drafts it.

    Returns:
        The draft, good for 15 minutes; ``eligible`` are those that nobody holds, nobody
        received and nobody gave up before.

    Raises:
        InvalidInputError: ``reason``.
    """
    need_transaction(conn)
    scope = pin(conn, scope.of_dead_letters())
    conditions, params = where(scope)
    query = sql.SQL(_SQL.draft_discard).format(conditions=conditions, columns=_COLUMNS)
    params |= {
        "filter": Jsonb(scope.to_json()),
        "reason": check_reason(reason),
        "actor": actor,
        "life": DRAFT_LIFE,
    }
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        draft = cur.execute(query, params).fetchone()
    if draft is None:
        raise AssertionError("INSERT … RETURNING gave no row")
    _log(conn, draft, actor=actor, action="discard.draft", affected=0)
    return draft


def get_discard(conn: Connection[Any], discard_id: UUID) -> Discard:
    """Give a discard as it stands.

    Raises:
        NotFoundError: there is none with this id.
    """
    query = sql.SQL(_SQL.get_discard).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        found = cur.execute(query, {"id": discard_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no discard {discard_id}.")
    return found


def list_running(conn: Connection[Any]) -> Sequence[Discard]:
    """List the discards that are not finished yet, the oldest first."""
    query = sql.SQL(_SQL.list_running).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        return cur.execute(query, {"most": _MOST_RUNNING}).fetchall()


def start_discard(
    conn: Connection[Any],
    discard_id: UUID,
    *,
    actor: str,
    reason: str | None = None,
    confirm: int | None = None,
) -> Discard:
    """Start a draft; what is given up is the draft's stored scope, never a new one.

    Starting again with the same reason gives the discard as it is: pressed twice, started once.

    Args:
        conn: inside a transaction; the caller commits.
        discard_id: the draft.
        actor: who starts it.
        reason: why; None: as drafted.
        confirm: must equal ``eligible`` where given.

    Raises:
        NotFoundError: there is none with this id.
        ConflictError: the draft has expired, was cancelled, or was started for another reason.
        InvalidInputError: ``reason`` (none was given) or ``confirm``.
    """
    need_transaction(conn)
    reason = check_reason(reason)
    found, is_expired = _lock(conn, discard_id)
    reason = found.reason if reason is None else reason
    if confirm is not None and confirm != found.eligible:
        raise InvalidInputError("confirm", f"confirm must be {found.eligible}, the eligible count")
    if found.state != "DRAFT":
        if reason != found.reason or found.state == "CANCELLED":
            raise ConflictError(f"Discard {discard_id} is {found.state}; draft a new one.")
        return found
    if is_expired:
        raise ConflictError(
            f"The draft {discard_id} has expired; draft a new one, with new counts."
        )
    if reason is None:
        raise InvalidInputError("reason", "reason is required: say why these are given up")
    params = {"id": discard_id, "reason": reason, "actor": actor}
    started = _change(conn, _SQL.start_discard, params, was=found)
    _log(conn, started, actor=actor, action="discard.start", affected=started.eligible)
    return started


def cancel_discard(conn: Connection[Any], discard_id: UUID, *, actor: str) -> Discard:
    """Drop a draft, or end a discard; what is given up already stays so.

    Raises:
        NotFoundError: there is none with this id.
        ConflictError: it is finished.
    """
    need_transaction(conn)
    found, _ = _lock(conn, discard_id)
    if found.state != "CANCELLED":  # pressed twice: it is so already
        found = _change(conn, _SQL.cancel_discard, {"id": discard_id}, was=found)
        _log(conn, found, actor=actor, action="discard.cancel", affected=found.remaining)
    return found


def lock_discard(conn: Connection[Any], discard_id: UUID) -> Discard:
    """Give a discard, and let nobody change it or make its next batch before the commit.

    Raises:
        NotFoundError: there is none with this id.
    """
    need_transaction(conn)
    return _lock(conn, discard_id)[0]


def _lock(conn: Connection[Any], discard_id: UUID) -> tuple[Discard, bool]:
    query = sql.SQL(_SQL.lock_discard).format(columns=_COLUMNS)
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, {"id": discard_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no discard {discard_id}.")
    is_expired = found.pop("is_expired")
    return Discard(**found), is_expired


def _change(
    conn: Connection[Any], statement: str, params: Mapping[str, Any], *, was: Discard
) -> Discard:
    query = sql.SQL(statement).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(Discard)) as cur:
        changed = cur.execute(query, params).fetchone()
    if changed is None:
        raise ConflictError(f"Discard {was.id} is {was.state}; this cannot be done to it now.")
    return changed


def _log(conn: Connection[Any], found: Discard, *, actor: str, action: str, affected: int) -> None:
    asked = {"filter": found.filter, "reason": found.reason, "eligible": found.eligible}
    log_action(
        conn, actor=actor, action=action, target=str(found.id), params=asked, affected=affected
    )
