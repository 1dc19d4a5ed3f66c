"""What must hold whatever happened: statements over deliveries and trail that find nothing.

``check(conn, receiver.requests)`` at the end of a trial; without requests, what concerns the
wire is left out. Each statement gives the rows that break its rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from psycopg import Connection

from fencepost.states import HELD, TRANSITIONS, Fact, State
from receiver import Received

_LEGAL: Final = ", ".join(
    f"('{origin}', {'NULL' if len(move.rows) == 1 else repr(str(move.rows[0]))}, '{move.to}')"
    for (origin, _), move in TRANSITIONS.items()
)
_STATES: Final = ", ".join(f"'{state}'" for state in State)
_FACTS: Final = ", ".join(f"'{fact}'" for fact in Fact)
_HELD: Final = ", ".join(f"'{state}'" for state in HELD)

_CHAIN: Final = f"""
WITH chain AS (
    SELECT delivery_id, seq, state, worker_id, fencing_token, created_at,
           lag(state) OVER d AS before, lag(state, 2) OVER d AS before_that,
           lag(worker_id) OVER d AS worker_before, lag(fencing_token) OVER d AS token_before,
           lead(state) OVER d AS after
      FROM webhook_delivery_attempts
    WINDOW d AS (PARTITION BY delivery_id ORDER BY seq)),
told AS (
    SELECT delivery_id, count(*) FILTER (WHERE state = 'ATTEMPTED') AS attempts,
           count(*) FILTER (WHERE state = 'LEASED') AS leases,
           count(*) FILTER (WHERE state = 'LEASE_EXPIRED' AND before = 'ATTEMPTED') AS expiries,
           count(*) FILTER (WHERE state = 'FAILED' AND before = 'ATTEMPTED') AS failures,
           count(*) FILTER (WHERE state = 'REPLAYED') AS replays
      FROM chain GROUP BY delivery_id),
legal (origin, fact, state) AS (VALUES {_LEGAL})
"""

_RULES: Final = {
    "I1 every event that left the outbox has met whom it matches": """
        SELECT e.id, s.id FROM webhook_events e
          JOIN webhook_subscriptions s
            ON s.removed_at IS NULL AND s.created_at <= e.created_at
           AND e.event_type LIKE ANY (s.event_type_patterns)
         WHERE e.only_subscription_id IS NULL
           AND NOT EXISTS (SELECT FROM webhook_outbox o WHERE o.event_id = e.id)
           AND NOT EXISTS (SELECT FROM webhook_deliveries d
                            WHERE d.event_id = e.id AND d.subscription_id = s.id)""",
    "I2 a trail counts from 1 without a gap": """
        SELECT delivery_id, min(seq), max(seq), count(*) FROM chain
         GROUP BY delivery_id HAVING min(seq) <> 1 OR max(seq) <> count(*)""",
    "I3 every move is legal, its fact right before it": f"""
        SELECT delivery_id, seq, before_that, before, state FROM chain
         WHERE CASE WHEN before IS NULL THEN state <> 'RECEIVED'
                    WHEN state IN ({_FACTS}) THEN before NOT IN ({_STATES}) OR after IS NULL
                    WHEN before IN ({_FACTS}) THEN (before_that, before, state) NOT IN
                         (SELECT origin, fact, state FROM legal WHERE fact IS NOT NULL)
                    ELSE (before, state) NOT IN
                         (SELECT origin, state FROM legal WHERE fact IS NULL) END""",
    "I4 the last row of the trail is the delivery's state": """
        SELECT d.id, d.seq, d.current_state, c.seq, c.state FROM webhook_deliveries d
          LEFT JOIN chain c ON c.delivery_id = d.id AND c.after IS NULL
         WHERE (c.seq, c.state) IS DISTINCT FROM (d.seq, d.current_state)""",
    "I5 tokens rise by one at each claim and never else": """
        SELECT delivery_id, seq, state, token_before, fencing_token FROM chain
         WHERE before IS NOT NULL AND fencing_token IS DISTINCT FROM
               token_before + CASE WHEN state = 'LEASED' THEN 1 ELSE 0 END
        UNION ALL
        SELECT d.id, NULL, d.current_state, t.leases, d.fencing_token
          FROM webhook_deliveries d JOIN told t ON t.delivery_id = d.id
         WHERE d.fencing_token <> t.leases""",
    "I6 no two holders share a token": f"""
        SELECT delivery_id, fencing_token, array_agg(DISTINCT worker_id) FROM chain
         WHERE state IN ({_HELD}) GROUP BY 1, 2 HAVING count(DISTINCT worker_id) > 1""",
    "I7 what ends or goes on with a lease is written by its holder": f"""
        SELECT delivery_id, seq, before, state, worker_before, worker_id FROM chain
         WHERE (before IN ({_HELD}) OR before IN ('FAILED', 'RELEASED'))
           AND worker_id IS DISTINCT FROM worker_before""",
    "I7 no write is both in the trail and noted as refused": """
        SELECT f.delivery_id, f.worker_id, f.fencing_token, f.would_write, c.state
          FROM webhook_fenced_writes f
          JOIN chain c ON c.delivery_id = f.delivery_id AND c.worker_id = f.worker_id
           AND c.fencing_token = f.fencing_token
           AND c.state IN ('DELIVERED', 'FAILED', 'RELEASED')""",
    "I8 a lease exists exactly while somebody holds the delivery": f"""
        SELECT id, current_state, worker_id, lease_expires_at FROM webhook_deliveries
         WHERE (current_state IN ({_HELD})) <> (worker_id IS NOT NULL)
            OR (worker_id IS NULL) <> (lease_expires_at IS NULL)""",
    "I9 nothing is held long after its lease": f"""
        SELECT id, worker_id, lease_expires_at FROM webhook_deliveries
         WHERE current_state IN ({_HELD})
           AND lease_expires_at < fencepost_now() - interval '60 s'""",
    "I13 attempts are counted as the trail tells them": """
        SELECT d.id, d.attempt_count, t.attempts
          FROM webhook_deliveries d JOIN told t ON t.delivery_id = d.id
         WHERE d.attempt_count <> t.attempts""",
    "I24 one event meets a subscription once": """
        SELECT event_id, subscription_id, count(*) FROM webhook_deliveries
         GROUP BY 1, 2 HAVING count(*) > 1""",
    "I27 no budget is overdrawn": """
        SELECT id, attempt_count, budget_start, max_attempts FROM webhook_deliveries
         WHERE attempt_count - budget_start > max_attempts""",
    "I27 nothing is dead without its trail saying why": """
        SELECT d.id, d.dead_reason, a.detail FROM webhook_deliveries d
          JOIN webhook_delivery_attempts a ON a.delivery_id = d.id AND a.seq = d.seq
         WHERE d.current_state = 'DLQ' AND d.dead_reason IS DISTINCT FROM a.detail ->> 'reason'""",
}

_RULES_OF_THE_WIRE: Final = {
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
) -> dict[str, list[Any]]:
    """Give the rules that do not hold, each with the rows that break it.

    Args:
        conn: one that may read everything and make temporary tables.
        requests: all that any receiver has seen; None: not known.
    """
    rules = dict(_RULES)
    with conn.transaction():
        conn.execute(
            "CREATE TEMP TABLE recv (delivery_id uuid, webhook_id uuid, attempt int, token bigint)"
        )
        if requests is not None:
            rules |= _RULES_OF_THE_WIRE
            with conn.cursor() as cur:
                cur.executemany("INSERT INTO recv VALUES (%s, %s, %s, %s)", map(_row, requests))
        found = {name: conn.execute(_CHAIN + rule).fetchall() for name, rule in rules.items()}
        conn.execute("DROP TABLE pg_temp.recv")
    return {name: rows for name, rows in found.items() if rows}


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
