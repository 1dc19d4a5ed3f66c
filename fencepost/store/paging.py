"""Lists by keyset, in both directions: a page costs the same at any depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from psycopg import Connection, sql
from psycopg.rows import RowFactory

from fencepost.cursors import Page, Position
from fencepost.store.queries import load

_SQL = load("paging.sql")

Row = TypeVar("Row")


def fetch_page(
    conn: Connection[Any],
    query: sql.SQL,
    params: Mapping[str, Any],
    *,
    row_factory: RowFactory[Row],
    position: Callable[[Row], Position],
    limit: int,
    after: Position | None,
    before: Position | None,
    is_from_end: bool = False,
    is_by_entry: bool = False,
    is_oldest_first: bool = False,
    parts: Mapping[str, sql.Composable] | None = None,
) -> Page[Row]:
    """Read one page, and whether there is one before and one after it.

    Args:
        conn: reads only.
        query: has ``{keyset}`` in its WHERE, ``{order}`` in its ORDER BY and ``%(limit)s``.
        params: its other parameters.
        row_factory: makes the rows.
        position: gives the sort key of a row.
        limit: rows of a page.
        after: continue right after this row.
        before: end right before this row; never both.
        is_from_end: the last page, wherever that begins; with neither of the two.
        is_by_entry: sorted by ``dead_at`` first, not by ``id`` alone.
        is_oldest_first: in the order of time; after and before go with the order.
        parts: what else the query has in braces.
    """
    backwards = before is not None or is_from_end
    ascending = is_oldest_first is not backwards
    key = before if backwards else after
    composed = query.format(
        keyset=sql.SQL(_keyset(key, is_by_entry=is_by_entry, ascending=ascending)),
        order=sql.SQL(_order(is_by_entry=is_by_entry, ascending=ascending)),
        **(parts or {}),
    )
    place = {} if key is None else {"key_id": key.id, "key_at": key.at}
    with conn.cursor(row_factory=row_factory) as cur:
        # One row more than the page shows whether there is another page.
        found = cur.execute(composed, {**params, **place, "limit": limit + 1}).fetchall()
    more, rows = len(found) > limit, found[:limit]
    if backwards:
        rows.reverse()
    if not rows:
        return Page((), None, None)
    has_next, has_prev = (before is not None, more) if backwards else (more, after is not None)
    return Page(
        rows, position(rows[-1]) if has_next else None, position(rows[0]) if has_prev else None
    )


def _keyset(key: Position | None, *, is_by_entry: bool, ascending: bool) -> str:
    if key is None:
        return _SQL.from_the_start
    if is_by_entry:
        return _SQL.entered_after if ascending else _SQL.entered_before
    return _SQL.newer_than if ascending else _SQL.older_than


def _order(*, is_by_entry: bool, ascending: bool) -> str:
    if is_by_entry:
        return _SQL.first_entered_first if ascending else _SQL.last_entered_first
    return _SQL.oldest_first if ascending else _SQL.newest_first
