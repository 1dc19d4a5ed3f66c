"""What must hold whatever happened, with what receivers saw: ``fencepost.store.invariants``.

``check(conn, receiver.requests)`` at the end of a trial; without requests, what concerns the
wire is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

from psycopg import Connection

from fencepost.store import invariants
from receiver import Received

_RULES_OF_THE_WIRE: Final[Mapping[str, LiteralString]] = {
    "I10 every request has a committed ATTEMPTED row": """
        SELECT r.* FROM recv r
         WHERE NOT EXISTS (SELECT FROM webhook_delivery_attempts a
                            WHERE a.delivery_id = r.delivery_id AND a.state = 'ATTEMPTED'
                              AND a.fencing_token = r.token
                              AND (a.detail ->> 'attempt')::int = r.attempt)""",
    "I11 an ATTEMPTED row sends one request at most": """
        SELECT delivery_id, attempt, count(*) FROM recv GROUP BY 1, 2 HAVING count(*) > 1""",
    "I14 what is DELIVERED was received": """
        SELECT d.id FROM webhook_deliveries d
         WHERE d.current_state = 'DELIVERED'
           AND NOT EXISTS (SELECT FROM recv r WHERE r.delivery_id = d.id)""",
    "I15 every duplicate is explained by the trail": """
        SELECT r.delivery_id, count(*), t.expiries, t.failures, t.replays
          FROM recv r JOIN told t ON t.delivery_id = r.delivery_id
         GROUP BY r.delivery_id, t.expiries, t.failures, t.replays
        HAVING count(*) - 1 > t.expiries + t.failures + t.replays""",
    "I23 webhook-id is the event's, always": """
        SELECT r.*, d.event_id FROM recv r
          LEFT JOIN webhook_deliveries d ON d.id = r.delivery_id
         WHERE d.event_id IS DISTINCT FROM r.webhook_id""",
}


def broken(
    conn: Connection[Any], requests: Iterable[Received] | None = None
) -> dict[str, Sequence[Any]]:
    """Give the rules that do not hold, each with the rows that break it.

    Args:
        conn: one that may read everything and make temporary tables.
        requests: all that any receiver has seen; None: not known.
    """
    if requests is None:
        return invariants.broken(conn)
    with conn.transaction():
        conn.execute(
            "CREATE TEMP TABLE recv (delivery_id uuid, webhook_id uuid, attempt int, token bigint)"
        )
        with conn.cursor() as cur:
            cur.executemany("INSERT INTO recv VALUES (%s, %s, %s, %s)", map(_row, requests))
        found = invariants.broken(conn, more=_RULES_OF_THE_WIRE)
        conn.execute("DROP TABLE pg_temp.recv")
    return found


def check(conn: Connection[Any], requests: Iterable[Received] | None = None) -> None:
    """Fail when a rule does not hold, and say which, and where."""
    found = broken(conn, requests)
    told = "\n".join(f"{name}:\n  {rows[:5]}" for name, rows in found.items())
    assert not found, f"\n{told}"


def _row(received: Received) -> tuple[str, str, int, int]:
    return (
        received.header("fencepost-delivery"),
        received.header("webhook-id"),
        int(received.header("fencepost-attempt")),
        int(received.header("fencepost-token")),
    )
