"""Rows that tests need, made with as little as each test says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import Connection

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
) -> list[UUID]:
    """Insert ENCRYPTED deliveries with the first two rows of their trails.

    Args:
        due: an SQL expression; ``n`` counts from 1.
        lane: 0 live, 1 replay, 2 suspect.
    """
    rows = conn.execute(
        f"""
        WITH made AS (
            INSERT INTO webhook_deliveries
                   (id, event_id, subscription_id, event_type, current_state, seq, next_attempt_at,
                    lane, max_attempts)
            SELECT fencepost_uuid7(fencepost_now()), gen_random_uuid(), %(sub)s, 'invoice.paid',
                   'ENCRYPTED', 2, {due}, %(lane)s, %(max_attempts)s
              FROM generate_series(1, %(count)s) AS n
            RETURNING id),
        trail AS (
            INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, fencing_token)
            SELECT id, seq, state, 0
              FROM made, (VALUES (1, 'RECEIVED'), (2, 'ENCRYPTED')) AS s(seq, state))
        SELECT id FROM made
        """,
        {"sub": subscription_id, "lane": lane, "max_attempts": max_attempts, "count": count},
    ).fetchall()
    return [row[0] for row in rows]


def pass_time(conn: Connection[Any], seconds: float) -> None:
    """Let the database's clock run ahead, from now on, in this database or transaction."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION fencepost_now() RETURNS timestamptz LANGUAGE sql STABLE"
        f" PARALLEL SAFE AS 'SELECT clock_timestamp() + interval ''{float(seconds)} s'''"
    )


def trail(conn: Connection[Any], delivery_id: UUID) -> list[str]:
    """Give the states of a delivery's trail, checking that seq has no gap."""
    rows = conn.execute(
        "SELECT seq, state FROM webhook_delivery_attempts WHERE delivery_id = %s ORDER BY seq",
        (delivery_id,),
    ).fetchall()
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    return [row[1] for row in rows]
