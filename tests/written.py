"""Trails written by hand put into a real database, for tests of long or rare stories."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.types.json import Jsonb

from fencepost.states import FINISHED
from trails import ORIGIN, Trail, delivery

_GUARD = "TRIGGER webhook_deliveries_legal_start"


def write(
    conn: Connection[Any],
    subscription_id: UUID,
    trail: Trail,
    *,
    begins: datetime,
    **columns: object,
) -> UUID:
    """Insert a delivery that has a past already, and its event with an empty payload.

    Args:
        conn: of a superuser: the guard against exactly this is put aside for it.
        subscription_id: where it goes.
        trail: what happened to it, from its first row on.
        begins: when the first row was written.
        columns: of the delivery, where the trail does not tell.

    Returns:
        The delivery's id.
    """
    known = delivery(trail.rows)
    found = asdict(known) | {
        "id": conn.execute("SELECT fencepost_uuid7(fencepost_now())").fetchone()[0],  # type: ignore[index]
        "event_id": uuid4(),
        "subscription_id": subscription_id,
        "fencing_token": max(row.fencing_token or 0 for row in trail.rows),
        "next_attempt_at": None if known.current_state in FINISHED else begins,
        "created_at": begins,
        "updated_at": begins,
        **columns,
    }
    with conn.transaction(), conn.cursor() as cur:
        cur.execute(
            "WITH e AS (INSERT INTO webhook_events (id, event_type, content_type, payload_bytes,"
            " node, sealed_by) VALUES (%(event_id)s, %(event_type)s, 'application/json', 2,"
            " 'web-1', 'fan-out') RETURNING id)"
            " INSERT INTO webhook_payloads (event_id, key_id, sealed) SELECT id, 'k', '' FROM e",
            found,
        )
        cur.execute(f"ALTER TABLE webhook_deliveries DISABLE {_GUARD}")
        places = ", ".join(f"%({name})s" for name in found)
        cur.execute(f"INSERT INTO webhook_deliveries ({', '.join(found)}) VALUES ({places})", found)
        cur.execute(f"ALTER TABLE webhook_deliveries ENABLE ALWAYS {_GUARD}")
        shift = begins - ORIGIN
        cur.executemany(
            "INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id,"
            " fencing_token, http_status_code, latency_ms, error_message, detail, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    found["id"], row.seq, row.state, row.worker_id, row.fencing_token,
                    row.http_status_code, row.latency_ms, row.error_message,
                    None if row.detail is None else Jsonb(_shifted(row.detail, shift)),
                    row.created_at + shift,
                )
                for row in trail.rows
            ],
        )  # fmt: skip
    id_: UUID = found["id"]
    return id_


def _shifted(detail: Any, shift: timedelta) -> dict[str, object]:
    moved = dict(detail)
    if "due_at" in moved:
        moved["due_at"] = (datetime.fromisoformat(moved["due_at"]) + shift).isoformat()
    return moved


def refuse(
    conn: Connection[Any], delivery_id: UUID, worker: str, token: int, at: datetime,
    would_write: str = "DELIVERED",
) -> None:  # fmt: skip
    """Note a late write that was refused at that moment."""
    conn.execute(
        "INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write,"
        " noted_at) VALUES (%s, %s, %s, %s, %s)",
        (delivery_id, worker, token, would_write, at),
    )
