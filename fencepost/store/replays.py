"""Bulk replays, as people order them: a draft with exact counts, then start, pause, cancel.

The functions that change something need a transaction of their caller, and write what
they did to the log of actions in it. The work itself is done by ``requeue``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from fencepost.cursors import Page, Position
from fencepost.errors import ConflictError, InvalidInputError, NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.records import Replay, ReplayPart
from fencepost.store.actions import check_reason, log_action, need_transaction
from fencepost.store.conditions import pin, where
from fencepost.store.paging import fetch_page
from fencepost.store.queries import load

_SQL = load("replays.sql")
_COLUMNS = sql.SQL(_SQL.columns)

DRAFT_LIFE: Final = timedelta(minutes=15)
"""How long a draft's count is good for."""

MOST_PARTS: Final = 20
"""That are shown of a replay; it may have thousands."""

_FASTEST: Final = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a replay, one for each subscription.

    Attributes:
        count: how many.
        largest: what the largest of them sends.
        longest: what of any is still to be requeued: it says when the replay ends.
    """

    count: int
    largest: int
    longest: int


def draft_replay(
    conn: Connection[Any],
    scope: DeliveryFilter,
    *,
    reason: str | None = None,
    rate: float | None = None,
    newest_first: bool = False,
    actor: str,
) -> Replay:
    """Fix what a replay would send again, and count it; touches no delivery.

    Args:
        conn: inside a transaction; the caller commits.
        scope: which deliveries; without ``state`` those in the DLQ. Discarded ones are not
            eligible unless it says ``discarded=1``.
        reason: why; needed at the start at the latest.
        rate: deliveries per second to each subscription; None: as fast as they can be requeued.
        newest_first: what entered the DLQ, or was made, last is sent first; else the other way.
        actor: who drafts it.

    Returns:
        The draft, good for 15 minutes; ``eligible`` are in a state that can be sent again,
        of a subscription that was not removed, with a payload that was not erased, and do not
        wait to be replayed already. ``not_eligible`` says why the others are not.

    Raises:
        InvalidInputError: ``reason`` or ``rate_per_second``.
    """
    need_transaction(conn)
    scope = pin(conn, scope.of_dead_letters())
    conditions, params = where(scope)
    query = sql.SQL(_SQL.draft_replay).format(conditions=conditions, columns=_COLUMNS)
    params |= {
        "with_discarded": bool(scope.discarded),
        "filter": Jsonb(scope.to_json()),
        "reason": check_reason(reason),
        "rate": check_rate(rate),
        "is_newest_first": newest_first,
        "actor": actor,
        "life": DRAFT_LIFE,
    }
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        draft = cur.execute(query, params).fetchone()
    if draft is None:
        raise AssertionError("INSERT … RETURNING gave no row")
    _log(conn, draft, actor=actor, action="replay.draft", affected=0)
    return draft


def get_replay(conn: Connection[Any], replay_id: UUID) -> Replay:
    """Give a replay as it is now.

    Raises:
        NotFoundError: there is none with this id.
    """
    query = sql.SQL(_SQL.get_replay).format(columns=_COLUMNS)
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        found = cur.execute(query, {"id": replay_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no replay {replay_id}.")
    return found


def list_parts(
    conn: Connection[Any], replay_id: UUID, *, limit: int = MOST_PARTS
) -> Sequence[ReplayPart]:
    """List what a replay sends to whom, the largest parts first."""
    with conn.cursor(row_factory=class_row(ReplayPart)) as cur:
        return cur.execute(_SQL.list_parts, {"id": replay_id, "limit": limit}).fetchall()


def measure_parts(conn: Connection[Any], replay_id: UUID) -> Parts:
    """Say how many parts a replay has, and how long they are."""
    with conn.cursor(row_factory=class_row(Parts)) as cur:
        return cur.execute(_SQL.measure_parts, {"id": replay_id}).fetchone() or Parts(0, 0, 0)


def list_replays(
    conn: Connection[Any],
    *,
    limit: int = 50,
    after: Position | None = None,
    before: Position | None = None,
) -> Page[Replay]:
    """List replays, the newest first, without drafts."""
    return fetch_page(
        conn,
        sql.SQL(_SQL.list_replays),
        {},
        row_factory=class_row(Replay),
        position=lambda row: Position(row.id),
        limit=limit,
        after=after,
        before=before,
        parts={"columns": _COLUMNS},
    )


def start_replay(
    conn: Connection[Any],
    replay_id: UUID,
    *,
    actor: str,
    reason: str | None = None,
    rate: float | None = None,
    newest_first: bool | None = None,
    confirm: int | None = None,
) -> Replay:
    """Start a draft; what is sent again is the draft's stored scope, never a new one.

    Starting again with the same values gives the replay as it is: pressed twice, started once.

    Args:
        conn: inside a transaction; the caller commits.
        replay_id: the draft.
        actor: who starts it.
        reason: why; None: as drafted.
        rate: deliveries per second to each subscription; None: as drafted.
        newest_first: the order; None: as drafted.
        confirm: must equal ``eligible`` where given.

    Raises:
        NotFoundError: there is none with this id.
        ConflictError: the draft has expired, was cancelled, was started with other values, or
            has nothing that can be sent again.
        InvalidInputError: ``reason`` (none was given), ``confirm`` or ``rate_per_second``.
    """
    need_transaction(conn)
    reason, rate = check_reason(reason), check_rate(rate)
    found, is_expired = _lock(conn, replay_id)
    reason = found.reason if reason is None else reason
    rate = found.rate_per_second if rate is None else rate
    newest_first = found.is_newest_first if newest_first is None else newest_first
    if confirm is not None and confirm != found.eligible:
        raise InvalidInputError("confirm", f"confirm must be {found.eligible}, the eligible count")
    if found.state != "DRAFT":
        as_started = (found.reason, found.rate_per_second, found.is_newest_first)
        if (reason, rate, newest_first) != as_started or found.state == "CANCELLED":
            raise ConflictError(f"Replay {replay_id} is {found.state}; draft a new one.")
        return found
    if is_expired:
        raise ConflictError(f"The draft {replay_id} has expired; draft a new one, with new counts.")
    if not found.eligible:
        raise ConflictError(
            f"The draft {replay_id} has nothing to send again: of {found.matched} deliveries that"
            " match its filter none is eligible."
        )
    if reason is None:
        raise InvalidInputError("reason", "reason is required: say why these are sent again")
    query = sql.SQL(_SQL.start_replay).format(columns=_COLUMNS)
    params = {
        "id": replay_id,
        "reason": reason,
        "rate": rate,
        "is_newest_first": newest_first,
        "actor": actor,
    }
    started = _change(conn, query, params, was=found)
    _log(conn, started, actor=actor, action="replay.start", affected=started.eligible)
    return started


def pause_replay(conn: Connection[Any], replay_id: UUID, *, actor: str) -> Replay:
    """Stop requeueing until it is resumed; what is requeued already is sent.

    Raises:
        NotFoundError: there is none with this id.
        ConflictError: it is not running.
    """
    return _move(conn, replay_id, actor, "replay.pause", to="PAUSED", allowed=("RUNNING",))


def resume_replay(conn: Connection[Any], replay_id: UUID, *, actor: str) -> Replay:
    """Go on with a paused replay; errors as in ``pause_replay``."""
    return _move(conn, replay_id, actor, "replay.resume", to="RUNNING", allowed=("PAUSED",))


def cancel_replay(conn: Connection[Any], replay_id: UUID, *, actor: str) -> Replay:
    """End a replay, or drop a draft; what is requeued already is sent. Errors as above."""
    allowed = ("DRAFT", "RUNNING", "PAUSED")
    return _move(conn, replay_id, actor, "replay.cancel", to="CANCELLED", allowed=allowed)


def _move(
    conn: Connection[Any],
    replay_id: UUID,
    actor: str,
    action: str,
    *,
    to: str,
    allowed: Iterable[str],
) -> Replay:
    need_transaction(conn)
    found, _ = _lock(conn, replay_id)
    if found.state != to:  # pressed twice: it is so already
        query = sql.SQL(_SQL.change_state).format(columns=_COLUMNS)
        params = {"id": replay_id, "to_state": to, "from_states": list(allowed)}
        found = _change(conn, query, params, was=found)
        _log(conn, found, actor=actor, action=action, affected=found.remaining)
    return found


def _lock(conn: Connection[Any], replay_id: UUID) -> tuple[Replay, bool]:
    query = sql.SQL(_SQL.lock_replay).format(columns=_COLUMNS)
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(query, {"id": replay_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no replay {replay_id}.")
    is_expired = found.pop("is_expired")
    return Replay(**found), is_expired


def _change(
    conn: Connection[Any], query: sql.Composed, params: Mapping[str, Any], *, was: Replay
) -> Replay:
    with conn.cursor(row_factory=class_row(Replay)) as cur:
        changed = cur.execute(query, params).fetchone()
    if changed is None:
        raise ConflictError(f"Replay {was.id} is {was.state}; this cannot be done to it now.")
    return changed


def _log(conn: Connection[Any], found: Replay, *, actor: str, action: str, affected: int) -> None:
    asked = {
        "filter": found.filter,
        "reason": found.reason,
        "rate_per_second": found.rate_per_second,
        "order": "newest_first" if found.is_newest_first else "oldest_first",
        "eligible": found.eligible,
    }
    log_action(
        conn, actor=actor, action=action, target=str(found.id), params=asked, affected=affected
    )


def check_rate(rate: object) -> float | None:
    """Accept a rate, or none. InvalidInputError names ``rate_per_second``."""
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise InvalidInputError("rate_per_second", "rate_per_second must be a number")
    if not (math.isfinite(rate) and 0 < rate <= _FASTEST):
        raise InvalidInputError(
            "rate_per_second", f"rate_per_second must be above 0 and at most {_FASTEST:.0f}"
        )
    return float(rate)
