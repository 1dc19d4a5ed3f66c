"""Rows that tests need, made with as little as each test says."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection

from fencepost.keyring import Keyring
from fencepost.signing import generate_secret

DUE = "fencepost_now()"


def make_subscription(conn: Connection[Any], **columns: object) -> UUID:
    """Insert a bare subscription, without secrets: for tests of claims, not of sending."""
    values = {
        "name": "orders",
        "endpoint_sealed": b"sealed",
        "endpoint_origin": "http://127.0.0.1",
        "endpoint_masked": "http://127.0.0.1/",
        **columns,
    }
    names = ", ".join(values)
    places = ", ".join(f"%({name})s" for name in values)
    row = conn.execute(
        f"INSERT INTO webhook_subscriptions (id, {names})"
        f" VALUES (fencepost_uuid7(fencepost_now()), {places}) RETURNING id",
        values,
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))


def make_deliveries(
    conn: Connection[Any],
    subscription_id: UUID,
    count: int = 1,
    *,
    due: str = DUE,
    lane: int = 0,
    max_attempts: int = 5,
    event_id: UUID | None = None,
) -> list[UUID]:
    """Insert ENCRYPTED deliveries with the first two rows of their trails.

    Args:
        due: an SQL expression; ``n`` counts from 1.
        lane: 0 live, 1 replay, 2 suspect.
        event_id: of this event, which a subscription meets once; None: each of its own.
    """
    rows = conn.execute(
        f"""
        WITH made AS (
            INSERT INTO webhook_deliveries
                   (id, event_id, subscription_id, event_type, current_state, seq, next_attempt_at,
                    lane, max_attempts)
            SELECT fencepost_uuid7(fencepost_now()), coalesce(%(event)s, gen_random_uuid()),
                   %(sub)s, 'invoice.paid', 'ENCRYPTED', 2, {due}, %(lane)s, %(max_attempts)s
              FROM generate_series(1, %(count)s) AS n
            RETURNING id),
        trail AS (
            INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, fencing_token)
            SELECT id, seq, state, 0
              FROM made, (VALUES (1, 'RECEIVED'), (2, 'ENCRYPTED')) AS s(seq, state))
        SELECT id FROM made
        """,
        {
            "sub": subscription_id,
            "lane": lane,
            "max_attempts": max_attempts,
            "count": count,
            "event": event_id,
        },
    ).fetchall()
    return [row[0] for row in rows]


def publish(conn: Connection[Any], event_type: str, count: int = 1) -> list[UUID]:
    """Publish events with empty payloads through the SQL door, in one statement."""
    rows = conn.execute(
        "SELECT webhook_publish(%s, '{}') FROM generate_series(1, %s)", (event_type, count)
    ).fetchall()
    return [row[0] for row in rows]


def pass_time(conn: Connection[Any], seconds: float) -> None:
    """Let the database's clock run ahead, from now on, in this database or transaction."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
        f" PARALLEL SAFE AS 'SELECT clock_timestamp() + interval ''{float(seconds)} s'''"
    )


def stop_time(conn: Connection[Any], at: datetime) -> None:
    """Let the database's clock stand still, likewise: then no test depends on how fast it is."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
        f" PARALLEL SAFE AS 'SELECT timestamptz ''{at.isoformat()}'''"
    )


def trail(conn: Connection[Any], delivery_id: UUID) -> list[str]:
    """Give the states of a delivery's trail, checking that seq has no gap."""
    rows = conn.execute(
        "SELECT seq, state FROM webhook_delivery_attempts WHERE delivery_id = %s ORDER BY seq",
        (delivery_id,),
    ).fetchall()
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    return [row[1] for row in rows]


def subscribe(
    conn: Connection[Any], keyring: Keyring, url: str, *, headers: Any = None, **columns: object
) -> tuple[UUID, str]:
    """Insert a subscription that can be sent to; give its id and its signing secret.

    Retries come after 50 ms at most, unless ``backoff_…_seconds`` say otherwise.
    """
    id_, secret_id, secret = uuid4(), uuid4(), generate_secret()
    values = {
        "name": "orders",
        "endpoint_sealed": keyring.seal(url.encode(), context=("endpoint", str(id_))),
        "endpoint_origin": url,
        "endpoint_masked": url,
        "backoff_base_seconds": 0.05,
        "backoff_cap_seconds": 0.05,
        **columns,
    }
    if headers is not None:
        sealed = keyring.seal(json.dumps(headers).encode(), context=("headers", str(id_)))
        values |= {"headers_sealed": sealed, "header_names": list(headers)}
    names = ", ".join(values)
    places = ", ".join(f"%({name})s" for name in values)
    conn.execute(
        f"INSERT INTO webhook_subscriptions (id, {names}) VALUES (%(id)s, {places})",
        {"id": id_, **values},
    )
    conn.execute(
        "INSERT INTO webhook_signing_secrets (id, subscription_id, sealed) VALUES (%s, %s, %s)",
        (
            secret_id,
            id_,
            keyring.seal(secret.encode(), context=("signing-secret", str(id_), str(secret_id))),
        ),
    )
    return id_, secret
