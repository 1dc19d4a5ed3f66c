"""Events, and their payloads for those who may see them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from fencepost.errors import NotFoundError
from fencepost.keyring import Keyring
from fencepost.records import Event
from fencepost.store.queries import load

_SQL = load("events.sql")


def get_event(conn: Connection[Any], event_id: UUID) -> Event:
    """Give one event, without its payload; its deliveries are ``deliveries.list_of_event``.

    Raises:
        NotFoundError: there is none with this id, or no longer.
    """
    with conn.cursor(row_factory=class_row(Event)) as cur:
        found = cur.execute(_SQL.get_event, {"id": event_id}).fetchone()
    if found is None:
        raise _none(event_id)
    return found


def read_payload(conn: Connection[Any], keyring: Keyring, event_id: UUID) -> bytes:
    """Give an event's payload exactly as it was published.

    Args:
        conn: reads only; who was shown it is logged by the caller.
        keyring: opens it.
        event_id: of the event.

    Raises:
        NotFoundError: there is no such event, or its payload was erased.
        KeyUnavailableError: its key is not in the keyring.
        UndecryptableError: it was changed or moved since.
    """
    with conn.cursor(row_factory=dict_row, binary=True) as cur:
        found = cur.execute(_SQL.read_payload, {"id": event_id}).fetchone()
    if found is None:
        raise _none(event_id)
    if found["sealed"] is not None:
        return keyring.open_payload(
            found["sealed"],
            event_id=event_id,
            content_type=found["content_type"],
            event_type=found["event_type"],
        )
    if found["clear"] is not None:
        return bytes(found["clear"])
    raise NotFoundError(f"The payload of event {event_id} was erased.")


def _none(event_id: UUID) -> NotFoundError:
    return NotFoundError(f"There is no event {event_id}.")
