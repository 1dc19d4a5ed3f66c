"""Search: from an id, a key or a name, in whole or by its beginning, to the thing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.store.queries import load

_SQL = load("lookup.sql")

MOST: Final = 50
"""Of each kind."""
SHORTEST: Final = 3
"""Characters of a beginning; a whole name or key may be shorter."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ID_PREFIX = re.compile(r"[0-9a-f]{8,32}")
_VISIBLE = re.compile(r"[!-~]{1,255}")

Kind = Literal["delivery", "event", "replay", "subscription", "worker"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that was found.

    Attributes:
        kind: what it is.
        id: of the thing; of a worker its name.
        label: an event type, a key, a name or a reason: what tells it from others.
        at: when it began to exist, where that is known.
    """

    kind: Kind
    id: str
    label: str
    at: datetime | None


def look_up(conn: Connection[Any], text: str) -> Sequence[Found]:
    """Find what has this id, key or name; of several, what matches in whole comes alone.

    Args:
        conn: reads only.
        text: an id or its first eight digits, an idempotency key or the name of a
            subscription or worker, or the beginning of one. An address of a page of ours is
            taken for the id in it.
    """
    text = text.strip()
    if "/" in text and (ids := _UUID.findall(text)):
        text = ids[-1]
    digits = text.replace("-", "").lower()
    if _ID_PREFIX.fullmatch(digits) and (found := _by_id(conn, digits)):
        return found
    if not text or "\0" in text:
        return ()
    limit = {"text": text, "limit": MOST}
    with conn.cursor(row_factory=class_row(Found)) as cur:
        hits: list[Found] = []
        if _VISIBLE.fullmatch(text):
            hits += cur.execute(_SQL.by_key, limit).fetchall()
        hits += cur.execute(_SQL.by_name, limit).fetchall()
    whole = [hit for hit in hits if text in (hit.label, hit.id)]
    return whole or (hits if len(text) >= SHORTEST else ())


def _by_id(conn: Connection[Any], digits: str) -> Sequence[Found]:
    bounds = {"low": UUID(digits.ljust(32, "0")), "high": UUID(digits.ljust(32, "f"))}
    with conn.cursor(row_factory=class_row(Found)) as cur:
        return cur.execute(_SQL.by_id, {**bounds, "limit": MOST}).fetchall()
