"""Lists of deliveries as a file: streamed page by page, so that no list is too long."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

from flask import Response, stream_with_context

from dashboard.database import PREVIEW_TIMEOUT, TooSlowError, connection, transaction
from dashboard.models import db
from dashboard.names import names_of
from fencepost.cursors import Page, Position
from fencepost.filters import DeliveryFilter
from fencepost.model import Delivery
from fencepost.moments import format_moment
from fencepost.store import deliveries
from fencepost.store.conditions import pin

MOST_ROWS: Final = 100_000
"""In one file: beyond that, spreadsheets give up."""

BATCH: Final = 1_000
"""Read at once, in some 10 ms; no connection is held while the reader takes its time."""

_EVERYTHING: Final = 2**62
_FORMULA: Final = tuple("=+-@\t\r\n")
_HEAD: Final = (
    "delivery_id", "event_id", "event_type", "subscription_id", "subscription", "state", "attempts",
    "last_status", "last_error", "dead_reason", "received_at", "entered_dlq_at",
)  # fmt: skip


def as_csv(scope: DeliveryFilter, *, name: str) -> Response:
    """Answer with what matches, in the order of the list; the file's name says if it was cut.

    Args:
        scope: which deliveries.
        name: of the file, without its ending.
    """
    scope = pin(connection(), scope)
    total = _count(scope)
    if total is None or total > MOST_ROWS:
        name += f"-first-{MOST_ROWS}" + ("" if total is None else f"-of-{total}")
    first = _read(scope, None)  # what goes wrong with it is an answer still
    response = Response(
        stream_with_context(_lines(scope, first)), content_type="text/csv; charset=utf-8"
    )
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    response.headers["Cache-Control"] = "no-store"
    return response


def _count(scope: DeliveryFilter) -> int | None:
    """Count exactly; None: that would take too long."""
    try:
        with transaction(timeout=PREVIEW_TIMEOUT) as conn:
            return deliveries.count_capped(conn, scope, _EVERYTHING)
    except TooSlowError:
        return None


def _read(scope: DeliveryFilter, after: Position | None) -> Page[Delivery]:
    return deliveries.list_deliveries(connection(), scope, limit=BATCH, after=after)


def _lines(scope: DeliveryFilter, page: Page[Delivery]) -> Iterator[str]:
    yield _written([_HEAD])
    left = MOST_ROWS
    while page.rows:
        names = names_of({row.subscription_id for row in page.rows})
        db.session.remove()  # the connection is somebody else's until the next batch
        yield _written(
            (
                row.id, row.event_id, row.event_type, row.subscription_id,
                names.get(row.subscription_id, ""), row.current_state, row.attempt_count,
                row.last_status, row.last_error, row.dead_reason, format_moment(row.created_at),
                "" if row.dead_at is None else format_moment(row.dead_at),
            )
            for row in page.rows[:left]
        )  # fmt: skip
        left -= len(page.rows)
        if page.next is None or left <= 0:
            return
        page = _read(scope, page.next)


def _written(rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(map(cell, row) for row in rows)
    return text.getvalue()


def cell(value: object) -> str:
    """Write a cell so that no spreadsheet takes it for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
