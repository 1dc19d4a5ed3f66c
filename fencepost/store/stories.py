"""Stories: a delivery with its timeline and what stands around it, in one read.

Page, API and command line all tell a story from here, so that they tell the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from fencepost.explanation import SILENT_AFTER, Circumstances, Explanation, explain
from fencepost.model import Delivery, TrailRow
from fencepost.store.deliveries import get_delivery, read_fenced, read_trail
from fencepost.store.queries import load
from fencepost.store.subscriptions import get_subscription
from fencepost.timeline import Excerpt, Timeline, build

_SQL = load("stories.sql")

ROWS_AT_ONCE: Final = 500
"""Rows of a trail on one page; a delivery that is given back for days has tens of thousands."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that is told of a delivery.

    Attributes:
        delivery: as it stands.
        timeline: of the whole trail, or of the rows that were asked for.
        about: what stands around it.
        explanation: why, and what next.
    """

    delivery: Delivery
    timeline: Timeline
    about: Circumstances
    explanation: Explanation

    @property
    def older(self) -> int | None:
        """Where the rows before these end: the ``before`` to ask for; None: they are the first."""
        rows = self.timeline.rows
        return rows[0].seq if rows and rows[0].seq > 1 else None

    @property
    def newer(self) -> int | None:
        """Where the rows after these end; None: they are the newest."""
        rows = self.timeline.rows
        if not rows or rows[-1].seq >= self.delivery.seq:
            return None
        return min(rows[-1].seq + ROWS_AT_ONCE, self.delivery.seq) + 1


def read_story(
    conn: Connection[Any], delivery_id: UUID, *, before: int | None = None, limit: int | None = None
) -> Story:
    """Read a delivery's story.

    Args:
        conn: reads only.
        delivery_id: of the delivery.
        before: tell the rows with a smaller ``seq``; None: up to the newest.
        limit: how many rows at most; None: the whole trail.

    Raises:
        NotFoundError: there is no such delivery, or no longer.
    """
    delivery = get_delivery(conn, delivery_id)
    about = _read_circumstances(conn, delivery)
    fenced = read_fenced(conn, delivery_id)
    excerpt = None
    if limit is None or (before is None and delivery.seq <= limit):
        rows = read_trail(conn, delivery_id)
    else:
        end = before if before is not None else delivery.seq + 1
        rows, excerpt = _read_excerpt(conn, delivery, end=end, limit=limit)
    timeline = build(
        rows,
        delivery=delivery,
        fenced=fenced,
        now=about.now,
        is_paused=about.is_paused,
        excerpt=excerpt,
    )
    return Story(delivery, timeline, about, explain(delivery, timeline, about))


def _read_excerpt(
    conn: Connection[Any], delivery: Delivery, *, end: int, limit: int
) -> tuple[list[TrailRow], Excerpt]:
    first = max(1, end - limit)
    params = {"id": delivery.id, "first": first, "end": end}
    with conn.cursor(row_factory=class_row(TrailRow)) as cur:
        rows = cur.execute(_SQL.read_excerpt, params).fetchall()
    with conn.cursor(row_factory=class_row(_Before)) as cur:
        before = cur.execute(_SQL.read_before, params).fetchone() or _Before(None, 0)
    is_last = bool(rows) and rows[-1].seq >= delivery.seq
    origin = before.origin or delivery.created_at
    return rows, Excerpt(origin, attempts=before.attempts, is_last=is_last)


@dataclass(frozen=True, slots=True)
class _Before:
    origin: datetime | None
    attempts: int


def _read_circumstances(conn: Connection[Any], delivery: Delivery) -> Circumstances:
    params = {
        "event_id": delivery.event_id,
        "id": delivery.id,
        "silent_after": SILENT_AFTER,
    }
    with conn.cursor(row_factory=dict_row) as cur:
        found = cur.execute(_SQL.read_circumstances, params).fetchone() or {}
    subscription = get_subscription(conn, delivery.subscription_id, with_removed=True)
    return Circumstances(subscription=subscription, **found)
