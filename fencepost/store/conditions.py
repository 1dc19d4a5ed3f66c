"""A ``DeliveryFilter`` as a WHERE clause over ``webhook_deliveries d``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, TypeAlias, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import scalar_row

from fencepost.filter_values import NO_ANSWER, Codes
from fencepost.filters import DeliveryFilter
from fencepost.globs import to_like
from fencepost.states import HELD, WAITING, Phase, State
from fencepost.store.queries import load

_SQL = load("conditions.sql")
_CLOCK = load("clock.sql")
_Part: TypeAlias = tuple[sql.Composable, dict[str, Any]]
_ID_PREFIX = re.compile(r"[0-9a-f]{8,32}")
_IMPLIED = ((WAITING, _SQL.waiting), (HELD, _SQL.held), ({State.DLQ}, _SQL.dead))
"""What indexes say instead of states: whoever asks for a part of a group finds it there, and of
a whole group this says it all. Source: the guards ``unfinished_has_due`` and ``dead_says_why``."""
_LAST_SUCCESS = 299
_PHASES = {
    Phase.WAITING: _SQL.phase_waiting,
    Phase.SLEEPING: _SQL.phase_sleeping,
    Phase.INFLIGHT: _SQL.held,
    Phase.PARKED: _SQL.dead,
}


def pin(conn: Connection[Any], scope: DeliveryFilter) -> DeliveryFilter:
    """Count relative bounds back from the database's clock."""
    return scope.pinned(read_clock(conn)) if scope.is_relative else scope


def read_clock(conn: Connection[Any]) -> datetime:
    """Give the only clock's time."""
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("datetime", cur.execute(_CLOCK.read_clock).fetchone())


def where(scope: DeliveryFilter) -> tuple[sql.Composed, dict[str, Any]]:
    """Write the conditions and their parameters, whose names begin with ``f_``.

    Args:
        scope: pinned: without relative bounds.
    """
    parts = [*_what(scope), *_range(scope), *_answers(scope), *_touched(scope)]
    conditions = [condition for condition, _ in parts] or [sql.SQL(_SQL.everything)]
    params = {name: value for _, given in parts for name, value in given.items()}
    return sql.SQL("\n AND ").join(conditions), params


def _what(scope: DeliveryFilter) -> Iterator[_Part]:
    if scope.id:
        yield sql.SQL(_SQL.id), {"f_id": list(scope.id)}
    if len(scope.sub) == 1:
        yield sql.SQL(_SQL.sub_one), {"f_sub": scope.sub[0]}
    elif scope.sub:
        yield sql.SQL(_SQL.sub_many), {"f_sub": list(scope.sub)}
    if scope.state:
        implied = [words for group, words in _IMPLIED if group.issuperset(scope.state)]
        yield from ((sql.SQL(words), {}) for words in implied)
        if set(scope.state) not in (group for group, _ in _IMPLIED):
            states = sql.SQL(", ").join(sql.Literal(str(state)) for state in scope.state)
            yield sql.SQL(_SQL.state).format(states=states), {}
    if scope.phase is not None:
        yield sql.SQL(_PHASES[scope.phase]), {}
    if scope.type:
        yield sql.SQL(_SQL.type), {"f_type": [to_like(glob) for glob in scope.type]}


def _answers(scope: DeliveryFilter) -> Iterator[_Part]:
    is_group = scope.is_by_entry and len(scope.sub) == 1
    if is_group and len(scope.code) == 1 and scope.code[0].low == scope.code[0].high:
        yield sql.SQL(_SQL.code_one), {"f_code": scope.code[0].low}
    elif scope.code:
        yield sql.SQL("({})").format(sql.SQL(" OR ").join(map(_code, scope.code))), {}
        if all(code.low > _LAST_SUCCESS for code in scope.code):
            yield sql.SQL(_SQL.failed), {}
    if is_group and len(scope.err) == 1:
        yield sql.SQL(_SQL.err_one), {"f_err": str(scope.err[0])}
    elif scope.err:
        yield sql.SQL(_SQL.err), {"f_err": [str(item) for item in scope.err]}
    if scope.min_attempts is not None:
        yield sql.SQL(_SQL.min_attempts), {"f_min_attempts": scope.min_attempts}
    if scope.max_attempts is not None:
        yield sql.SQL(_SQL.max_attempts), {"f_max_attempts": scope.max_attempts}


def _code(code: Codes) -> sql.Composable:
    if code == NO_ANSWER:
        return sql.SQL(_SQL.no_code)
    low, high = sql.Literal(code.low), sql.Literal(code.high)
    return sql.SQL(_SQL.code).format(low=low, high=high)


def _touched(scope: DeliveryFilter) -> Iterator[_Part]:
    if scope.q is not None:
        yield _search(scope.q)
    if scope.replay is not None:
        yield sql.SQL(_SQL.replay), {"f_replay": scope.replay}
    if scope.worker is not None:
        yield sql.SQL(_SQL.worker), {"f_worker": scope.worker}
    if scope.fenced is not None:
        yield sql.SQL(_SQL.fenced if scope.fenced else _SQL.not_fenced), {}
    if scope.discarded is not None:
        yield sql.SQL(_SQL.discarded if scope.discarded else _SQL.not_discarded), {}


def _range(scope: DeliveryFilter) -> Iterator[_Part]:
    if scope.is_relative:
        raise ValueError("pin the filter first")
    if scope.since is not None:
        found = _SQL.entered_since if scope.is_by_entry else _SQL.since
        yield sql.SQL(found), {"f_since": scope.since}
    if scope.until is not None:
        found = _SQL.entered_until if scope.is_by_entry else _SQL.until
        yield sql.SQL(found), {"f_until": scope.until}


def _search(text: str) -> _Part:
    """Look for an id by its beginning, from eight hexadecimal digits on, and for a whole key."""
    digits = text.replace("-", "").lower()
    if not _ID_PREFIX.fullmatch(digits):
        return sql.SQL(_SQL.q_key), {"f_q": text}
    low, high = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    return sql.SQL(_SQL.q_id), {"f_q": text, "f_q_low": low, "f_q_high": high}
