"""Things of a history to look at: some of every kind that a page may have trouble with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from psycopg import Connection

_EACH: Final = {"each": 8}

_DELIVERIES: Final[Mapping[str, LiteralString]] = {
    "delivered": """
        SELECT id FROM webhook_deliveries WHERE current_state = 'DELIVERED'
         ORDER BY id DESC LIMIT %(each)s""",
    "old": "SELECT id FROM webhook_deliveries ORDER BY id LIMIT %(each)s",
    "dead": """
        SELECT id FROM webhook_deliveries WHERE dead_at IS NOT NULL
         ORDER BY dead_at DESC LIMIT %(each)s""",
    "waiting": """
        SELECT id FROM webhook_deliveries
         WHERE worker_id IS NULL AND next_attempt_at IS NOT NULL LIMIT %(each)s""",
    "held": "SELECT id FROM webhook_deliveries WHERE worker_id IS NOT NULL LIMIT %(each)s",
    "very long": """
        SELECT d.id FROM webhook_deliveries d
          JOIN (SELECT id FROM webhook_subscriptions ORDER BY max_attempts DESC LIMIT 1) s
            ON s.id = d.subscription_id
         WHERE d.dead_at IS NOT NULL ORDER BY d.seq DESC LIMIT %(each)s""",
}
_SUBSCRIPTIONS: Final[Mapping[str, LiteralString]] = {
    "largest": "SELECT id FROM webhook_subscriptions WHERE name = 'acme-0'",
    "failing": "SELECT id FROM webhook_subscriptions WHERE name = 'umbrella-3'",
    "paused": "SELECT id FROM webhook_subscriptions WHERE state = 'paused' LIMIT 1",
    "down": "SELECT subscription_id FROM webhook_failing_subscriptions LIMIT 1",
    "small": "SELECT id FROM webhook_subscriptions ORDER BY id DESC OFFSET 10 LIMIT %(each)s",
}
_REPLAYS: Final = "SELECT id FROM webhook_replays ORDER BY requeued DESC LIMIT %(each)s"
_DISCARDS: Final = "SELECT id FROM webhook_discards LIMIT %(each)s"
_EVENTS: Final = "SELECT event_id FROM webhook_deliveries ORDER BY id DESC LIMIT %(each)s"
_DEEP: Final = """
SELECT id FROM webhook_deliveries
 WHERE id >= (SELECT fencepost_uuid7_floor(created_at + (fencepost_now() - created_at) * 0.2)
                FROM webhook_deliveries ORDER BY id LIMIT 1)
 ORDER BY id LIMIT 1"""
_DEEP_DEAD: Final = """
SELECT id, dead_at FROM webhook_deliveries
 WHERE dead_at >= (SELECT dead_at + (fencepost_now() - dead_at) * 0.2 FROM webhook_deliveries
                    WHERE dead_at IS NOT NULL ORDER BY dead_at LIMIT 1)
 ORDER BY dead_at LIMIT 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Ids by what they stand for, and values for filters.

    Attributes:
        deliveries: by kind; each kind is a line of the table.
        subscriptions: likewise.
        replays: that were finished.
        discards: of many at once.
        events: that met somebody.
        deep: a delivery far down the list: of ten, eight or nine are newer.
        deep_dead: likewise a dead letter, with the moment of its entry.
        key: an idempotency key.
        worker: that is running.
        old_worker: that ran when the history began.
    """

    deliveries: Mapping[str, Sequence[UUID]]
    subscriptions: Mapping[str, Sequence[UUID]]
    replays: Sequence[UUID]
    discards: Sequence[UUID]
    events: Sequence[UUID]
    deep: UUID
    deep_dead: tuple[UUID, datetime]
    key: str
    worker: str
    old_worker: str


def read_samples(conn: Connection[Any]) -> Samples:
    """Choose them.

    Args:
        conn: may read everything.
    """
    deep_dead = _row(conn, _DEEP_DEAD)
    oldest = _ids(conn, _DELIVERIES["old"])[0]
    return Samples(
        deliveries=_of_each(conn, _DELIVERIES),
        subscriptions=_of_each(conn, _SUBSCRIPTIONS),
        replays=_ids(conn, _REPLAYS),
        discards=_ids(conn, _DISCARDS),
        events=_ids(conn, _EVENTS),
        deep=_row(conn, _DEEP)[0],
        deep_dead=(deep_dead[0], deep_dead[1]),
        key=_row(conn, "SELECT key FROM webhook_idempotency_keys LIMIT 1")[0],
        worker=_row(conn, "SELECT worker_id FROM webhook_workers WHERE state = 'running' LIMIT 1")[
            0
        ],
        old_worker=_row(
            conn,
            "SELECT worker_id FROM webhook_delivery_attempts WHERE delivery_id = %s AND seq = 3",
            (oldest,),
        )[0],
    )


def _of_each(
    conn: Connection[Any], queries: Mapping[str, LiteralString]
) -> Mapping[str, Sequence[UUID]]:
    return {name: ids for name, query in queries.items() if (ids := _ids(conn, query))}


def _ids(conn: Connection[Any], query: LiteralString) -> list[UUID]:
    return [row[0] for row in conn.execute(query, _EACH).fetchall()]


def _row(
    conn: Connection[Any], query: LiteralString, params: Sequence[object] = ()
) -> tuple[Any, ...]:
    found = conn.execute(query, params).fetchone()
    if found is None:
        raise LookupError("this history is too short to be looked at")
    return tuple(found)
