"""Deliveries, their trails, and what receivers answered: the reading side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from psycopg import Connection, sql
from psycopg.rows import class_row, kwargs_row, scalar_row

from fencepost.cursors import Page, Position
from fencepost.errors import NotFoundError
from fencepost.filters import DeliveryFilter
from fencepost.keyring import Keyring
from fencepost.model import Delivery, FencedWrite, TrailRow
from fencepost.states import State
from fencepost.store.conditions import pin, where
from fencepost.store.paging import fetch_page
from fencepost.store.queries import load

_SQL = load("deliveries.sql")
_COLUMNS = sql.SQL(_SQL.columns)


def list_deliveries(
    conn: Connection[Any],
    scope: DeliveryFilter,
    *,
    limit: int = 50,
    after: Position | None = None,
    before: Position | None = None,
    is_from_end: bool = False,
    is_oldest_first: bool = False,
) -> Page[Delivery]:
    """List deliveries, the newest first; dead letters alone by the moment of entry, latest first.

    Args:
        conn: reads only.
        scope: which ones; relative bounds count back from the database's clock.
        limit: of one page, 1 to 200.
        after: continue right after this row.
        before: those right before this row; never both.
        is_from_end: the last page; with neither of the two.
        is_oldest_first: the other way around; the rest goes with the order.
    """
    scope = pin(conn, scope)
    several = len(scope.sub) > 1
    conditions, params = where(replace(scope, sub=()) if several else scope)
    if several:
        params |= {"f_sub": list(scope.sub)}
    return fetch_page(
        conn,
        sql.SQL(_SQL.list_deliveries_of_many if several else _SQL.list_deliveries),
        params,
        row_factory=kwargs_row(_delivery),
        position=lambda row: Position(row.id, row.dead_at if scope.is_by_entry else None),
        limit=limit,
        after=after,
        before=before,
        is_from_end=is_from_end,
        is_by_entry=scope.is_by_entry,
        is_oldest_first=is_oldest_first,
        parts={"columns": _COLUMNS, "conditions": conditions},
    )


def refresh_deliveries(
    conn: Connection[Any], scope: DeliveryFilter, ids: Sequence[UUID]
) -> list[tuple[Delivery, bool]]:
    """Read again what a page of a list shows, in its order, whatever has become of it.

    Args:
        conn: reads only.
        scope: of the list.
        ids: of its rows.

    Returns:
        Each with whether the filter still matches it; those that are gone are left out.
    """
    conditions, params = where(pin(conn, scope))
    query = sql.SQL(_SQL.refresh_deliveries).format(columns=_COLUMNS, conditions=conditions)
    with conn.cursor(row_factory=kwargs_row(_matched)) as cur:
        return cur.execute(query, {**params, "ids": list(ids)}).fetchall()


def _matched(*, matches: bool, **rest: Any) -> tuple[Delivery, bool]:  # noqa: ANN401 - likewise
    return _delivery(**rest), matches


def _delivery(*, current_state: str, **rest: Any) -> Delivery:  # noqa: ANN401 - the rest of a row
    return Delivery(current_state=State(current_state), **rest)


def get_delivery(conn: Connection[Any], delivery_id: UUID) -> Delivery:
    """Give one delivery.

    Raises:
        NotFoundError: there is none with this id, or no longer.
    """
    query = sql.SQL(_SQL.get_delivery).format(columns=_COLUMNS)
    with conn.cursor(row_factory=kwargs_row(_delivery)) as cur:
        found = cur.execute(query, {"id": delivery_id}).fetchone()
    if found is None:
        raise NotFoundError(f"There is no delivery {delivery_id}.")
    return found


def list_of_event(
    conn: Connection[Any], event_id: UUID, *, limit: int | None = None
) -> list[Delivery]:
    """List the deliveries of one event, in the order in which they were made; None: all."""
    query = sql.SQL(_SQL.list_of_event).format(columns=_COLUMNS)
    with conn.cursor(row_factory=kwargs_row(_delivery)) as cur:
        return cur.execute(query, {"event_id": event_id, "limit": limit}).fetchall()


def read_trail(conn: Connection[Any], delivery_id: UUID) -> list[TrailRow]:
    """Read the trail of a delivery in the order of ``seq``; empty when there is none."""
    with conn.cursor(row_factory=class_row(TrailRow)) as cur:
        return cur.execute(_SQL.read_trail, {"id": delivery_id}).fetchall()


def read_fenced(conn: Connection[Any], delivery_id: UUID) -> list[FencedWrite]:
    """Read the late writes to a delivery that fencing refused, oldest first."""
    with conn.cursor(row_factory=class_row(FencedWrite)) as cur:
        return cur.execute(_SQL.read_fenced, {"id": delivery_id}).fetchall()


def read_response(
    conn: Connection[Any], endpoint_keyring: Keyring, delivery_id: UUID, attempt: int
) -> Mapping[str, Any] | None:
    """Read what the receiver answered to one attempt; None where it was not kept.

    Args:
        conn: reads only.
        endpoint_keyring: opens it.
        delivery_id: of the delivery.
        attempt: the ``attempt_count`` of the request.

    Raises:
        KeyUnavailableError: its key is not in the keyring.
        UndecryptableError: it was changed since.
    """
    with conn.cursor(row_factory=scalar_row) as cur:
        sealed = cur.execute(_SQL.read_response, {"id": delivery_id, "attempt": attempt}).fetchone()
    if sealed is None:
        return None
    text = endpoint_keyring.open(sealed, context=("response", str(delivery_id), str(attempt)))
    return cast("Mapping[str, Any]", json.loads(text))


def count_by_state(conn: Connection[Any], sub: UUID | None = None) -> dict[State, int]:
    """Count the deliveries in every state, exactly; a state that has none counts 0.

    Args:
        conn: reads only.
        sub: of one subscription; None: of all, which reads the whole table.
    """
    counts = dict.fromkeys(State, 0)
    query = _SQL.count_by_state if sub is None else _SQL.count_by_state_of
    for state, count in conn.execute(query, {"sub": sub}):
        counts[State(state)] = count
    return counts


def count_capped(conn: Connection[Any], scope: DeliveryFilter, cap: int = 10_000) -> int:
    """Count what a filter matches, up to a limit.

    Returns:
        The exact number up to ``cap``; ``cap + 1`` stands for "more than ``cap``".
    """
    conditions, params = where(pin(conn, scope))
    query = sql.SQL(_SQL.count_capped).format(conditions=conditions)
    with conn.cursor(row_factory=scalar_row) as cur:
        return cast("int", cur.execute(query, params | {"most": cap + 1}).fetchone())
