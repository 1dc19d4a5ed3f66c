"""What is sealed, opened for a person who may see it; who looked at a payload is on record."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from fencepost.errors import NotFoundError
from fencepost.keyring import Keyring
from fencepost.model import TrailRow
from fencepost.records import Event
from fencepost.store.actions import log_action, need_transaction
from fencepost.store.deliveries import get_delivery, read_response
from fencepost.store.events import get_event, read_payload
from fencepost.store.queries import load

_SQL = load("stories.sql")


@dataclass(frozen=True, slots=True)
class Revealed:
    """A payload exactly as it was published."""

    event: Event
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """What a receiver answered, as far as it was kept.

    Attributes:
        status: of the status line.
        headers: in order.
        body: its beginning, raw.
        is_truncated: there was more.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)
    is_truncated: bool


def reveal_payload(
    conn: Connection[Any],
    keyring: Keyring,
    delivery_id: UUID,
    *,
    actor: str,
    request_id: str | None = None,
) -> Revealed:
    """Open the payload of a delivery, and write down who did.

    Args:
        conn: inside a transaction; the caller commits before it shows anything.
        keyring: opens it.
        delivery_id: of a delivery of its event.
        actor: who looks.
        request_id: of the HTTP request.

    Raises:
        NotFoundError: there is no such delivery, or its payload was erased.
        KeyUnavailableError: its key is not in the keyring.
        UndecryptableError: it was changed or moved since.
    """
    need_transaction(conn)
    delivery = get_delivery(conn, delivery_id)
    event = get_event(conn, delivery.event_id)
    payload = read_payload(conn, keyring, event.id)
    log_action(
        conn,
        actor=actor,
        action="payload.reveal",
        target=str(delivery_id),
        params={"event_id": str(event.id), "bytes": len(payload)},
        request_id=request_id,
    )
    return Revealed(event, payload)


def open_response(
    conn: Connection[Any], endpoint_keyring: Keyring, delivery_id: UUID, attempt: int
) -> Response | None:
    """Open what the receiver answered to one attempt; None where it was not kept.

    Raises:
        KeyUnavailableError: its key is not in the keyring.
        UndecryptableError: it was changed since.
    """
    kept = read_response(conn, endpoint_keyring, delivery_id, attempt)
    if kept is None:
        return None
    return Response(
        status=kept["status"],
        headers=tuple((name, value) for name, value in kept["headers"]),
        body=base64.b64decode(kept["body"]),
        is_truncated=bool(kept["is_truncated"]),
    )


def read_attempt(conn: Connection[Any], delivery_id: UUID, attempt: int) -> list[TrailRow]:
    """Read the rows of one attempt: the claim, the request, how it ended, what followed.

    Raises:
        NotFoundError: this delivery has no such attempt.
    """
    with conn.cursor(row_factory=class_row(TrailRow)) as cur:
        rows = cur.execute(_SQL.read_attempt, {"id": delivery_id, "attempt": attempt}).fetchall()
    if not rows:
        raise NotFoundError(f"Delivery {delivery_id} has no attempt {attempt}.")
    return rows
