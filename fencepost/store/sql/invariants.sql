-- What must hold whatever happened. The first statements lay the trail out, once, in scratch tables; each of
-- the others gives the rows that break the rule of its first line. All look at what has moved since a moment.

-- name: make_legal
CREATE TEMP TABLE legal AS
SELECT * FROM unnest(%(origins)s::text[], %(between)s::text[], %(targets)s::text[]) AS l(origin, fact, state);

-- name: make_chain
CREATE TEMP TABLE chain AS
SELECT a.delivery_id, a.seq, a.state, a.worker_id, a.fencing_token,
       lag(a.state) OVER d AS before, lag(a.state, 2) OVER d AS before_that,
       lag(a.worker_id) OVER d AS worker_before, lag(a.fencing_token) OVER d AS token_before,
       lead(a.state) OVER d AS after
  FROM webhook_delivery_attempts a
 WHERE %(since)s::timestamptz = '-infinity'
    OR EXISTS (SELECT FROM webhook_deliveries d WHERE d.id = a.delivery_id AND d.updated_at >= %(since)s::timestamptz)
WINDOW d AS (PARTITION BY a.delivery_id ORDER BY a.seq);

-- name: make_told
CREATE TEMP TABLE told AS
SELECT delivery_id, count(*) FILTER (WHERE state = 'ATTEMPTED') AS attempts,
       count(*) FILTER (WHERE state = 'LEASED') AS leases,
       count(*) FILTER (WHERE state = 'LEASE_EXPIRED' AND before = 'ATTEMPTED') AS expiries,
       count(*) FILTER (WHERE state = 'FAILED' AND before = 'ATTEMPTED') AS failures,
       count(*) FILTER (WHERE state = 'REPLAYED') AS replays
  FROM chain
 GROUP BY delivery_id;

-- name: analyze_scratch
-- Nothing else analyzes temporary tables, and by its defaults the planner walks all of one for each row of another.
ANALYZE pg_temp.chain, pg_temp.told;

-- name: drop_scratch
DROP TABLE pg_temp.chain, pg_temp.told, pg_temp.legal;

-- name: rule_events
-- I1 every event that left the outbox has met whom it matches
SELECT e.id, s.id
  FROM webhook_events e
  JOIN webhook_subscriptions s
    ON s.removed_at IS NULL AND s.created_at <= e.created_at AND e.event_type LIKE ANY (s.event_type_patterns)
 WHERE e.only_subscription_id IS NULL AND e.created_at >= %(since)s::timestamptz
   AND NOT EXISTS (SELECT FROM webhook_outbox o WHERE o.event_id = e.id)
   AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = e.id AND d.subscription_id = s.id);

-- name: rule_gaps
-- I2 a trail counts from 1 without a gap
SELECT delivery_id, min(seq), max(seq), count(*)
  FROM chain
 GROUP BY delivery_id HAVING min(seq) <> 1 OR max(seq) <> count(*);

-- name: rule_moves
-- I3 every move is legal, its fact right before it
SELECT delivery_id, seq, before_that, before, state
  FROM chain
 WHERE CASE WHEN before IS NULL THEN state <> 'RECEIVED'
            WHEN state = ANY (%(facts)s) THEN before <> ALL (%(states)s) OR after IS NULL
            WHEN before = ANY (%(facts)s) THEN (before_that, before, state) NOT IN
                 (SELECT origin, fact, state FROM legal WHERE fact IS NOT NULL)
            ELSE (before, state) NOT IN (SELECT origin, state FROM legal WHERE fact IS NULL) END;

-- name: rule_newest
-- I4 the last row of the trail is the delivery's state
SELECT d.id, d.seq, d.current_state, c.seq, c.state
  FROM webhook_deliveries d
  LEFT JOIN chain c ON c.delivery_id = d.id AND c.after IS NULL
 WHERE d.updated_at >= %(since)s::timestamptz AND (c.seq, c.state) IS DISTINCT FROM (d.seq, d.current_state);

-- name: rule_tokens
-- I5 tokens rise by one at each claim and never else
SELECT delivery_id, seq, state, token_before, fencing_token
  FROM chain
 WHERE before IS NOT NULL
   AND fencing_token IS DISTINCT FROM token_before + CASE WHEN state = 'LEASED' THEN 1 ELSE 0 END
UNION ALL
SELECT d.id, NULL, d.current_state, t.leases, d.fencing_token
  FROM webhook_deliveries d
  JOIN told t ON t.delivery_id = d.id
 WHERE d.fencing_token <> t.leases;

-- name: rule_holders
-- I6 no two holders share a token
SELECT delivery_id, fencing_token, array_agg(DISTINCT worker_id)
  FROM chain
 WHERE state = ANY (%(held)s)
 GROUP BY 1, 2 HAVING count(DISTINCT worker_id) > 1;

-- name: rule_writers
-- I7 what ends or goes on with a lease is written by its holder
SELECT delivery_id, seq, before, state, worker_before, worker_id
  FROM chain
 WHERE (before = ANY (%(held)s) OR before IN ('FAILED', 'RELEASED')) AND worker_id IS DISTINCT FROM worker_before;

-- name: rule_fenced
-- I7 no write is both in the trail and noted as refused
SELECT f.delivery_id, f.worker_id, f.fencing_token, f.would_write, c.state
  FROM webhook_fenced_writes f
  JOIN chain c ON c.delivery_id = f.delivery_id AND c.worker_id = f.worker_id
   AND c.fencing_token = f.fencing_token AND c.state IN ('DELIVERED', 'FAILED', 'RELEASED');

-- name: rule_leases
-- I8 a lease exists exactly while somebody holds the delivery
SELECT id, current_state, worker_id, lease_expires_at
  FROM webhook_deliveries
 WHERE updated_at >= %(since)s::timestamptz
   AND ((current_state = ANY (%(held)s)) <> (worker_id IS NOT NULL)
        OR (worker_id IS NULL) <> (lease_expires_at IS NULL));

-- name: rule_forgotten
-- I9 nothing is held long after its lease
SELECT id, worker_id, lease_expires_at
  FROM webhook_deliveries
 WHERE worker_id IS NOT NULL AND lease_expires_at < fencepost_now() - interval '60 s';

-- name: rule_attempts
-- I13 attempts are counted as the trail tells them
SELECT d.id, d.attempt_count, t.attempts
  FROM webhook_deliveries d
  JOIN told t ON t.delivery_id = d.id
 WHERE d.attempt_count <> t.attempts;

-- name: rule_once
-- I24 one event meets a subscription once
SELECT event_id, subscription_id, count(*)
  FROM webhook_deliveries
 WHERE updated_at >= %(since)s::timestamptz
 GROUP BY 1, 2 HAVING count(*) > 1;

-- name: rule_budgets
-- I27 no budget is overdrawn
SELECT id, attempt_count, budget_start, max_attempts
  FROM webhook_deliveries
 WHERE updated_at >= %(since)s::timestamptz AND attempt_count - budget_start > max_attempts;

-- name: rule_deaths
-- I27 nothing is dead without its trail saying why
SELECT d.id, d.dead_reason, a.detail
  FROM webhook_deliveries d
  JOIN webhook_delivery_attempts a ON a.delivery_id = d.id AND a.seq = d.seq
 WHERE d.current_state = 'DLQ' AND d.updated_at >= %(since)s::timestamptz AND d.dead_reason IS DISTINCT FROM a.detail ->> 'reason';
