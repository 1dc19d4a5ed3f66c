-- What came of a lease: an outcome, a refusal, or a release. The trail gets worker and token as they were
-- presented, not as the row has them: a guard that failed would show.

-- name: settle_many
-- One form for every way in which a holder gives its lease back. Guards as in leases.sql.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
i AS MATERIALIZED (
    SELECT *
      FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(from_states)s::text[], %(to_states)s::text[],
                  %(facts)s::text[], %(is_outcomes)s::boolean[], %(delays)s::double precision[],
                  %(refunds)s::bigint[], %(statuses)s::bigint[], %(latencies)s::bigint[], %(errors)s::text[],
                  %(messages)s::text[], %(details)s::jsonb[], %(reasons)s::text[], %(responses)s::bytea[],
                  %(pauses)s::boolean[], %(notes)s::text[])
           AS i(id, token, from_state, to_state, fact, is_outcome, delay, refund, status, latency, error,
                message, detail, reason, response, pauses, note)
),
held AS MATERIALIZED (
    SELECT i.*
      FROM (SELECT * FROM i ORDER BY id) i
     CROSS JOIN LATERAL (
           SELECT FROM webhook_deliveries d
            WHERE d.id = i.id
              AND coalesce(d.worker_id, '') = %(worker_id)s     -- guard: this process
              AND d.fencing_token = i.token                     -- guard: this lease
              AND d.current_state = i.from_state                -- guard: not settled already
              FOR NO KEY UPDATE OF d) l
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = h.to_state, worker_id = NULL, lease_expires_at = NULL,
           seq = d.seq + CASE WHEN h.fact IS NULL THEN 1 ELSE 2 END,
           next_attempt_at = t.now + make_interval(secs => h.delay),
           budget_start = d.budget_start + h.refund,
           expiries = CASE WHEN h.is_outcome THEN 0 ELSE d.expiries END,
           lane = CASE WHEN h.is_outcome AND d.lane = 2 THEN 0 ELSE d.lane END,
           last_status = CASE WHEN h.is_outcome THEN h.status ELSE d.last_status END,
           last_error = CASE WHEN h.fact = 'RELEASED' THEN d.last_error ELSE h.error END,
           dead_at = CASE WHEN h.to_state = 'DLQ' THEN t.now END,
           dead_reason = CASE WHEN h.to_state = 'DLQ' THEN h.reason END,
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM held h CROSS JOIN t
     WHERE d.id = h.id
    RETURNING d.id, d.seq, h.token, d.subscription_id, d.attempt_count, h.to_state, h.fact, h.delay, h.status,
              h.latency, h.message, h.detail, h.reason, h.response, h.pauses
),
trail AS (
    INSERT INTO webhook_delivery_attempts
           (delivery_id, seq, state, worker_id, fencing_token, http_status_code, latency_ms, error_message, detail,
            created_at)
    SELECT m.id, m.seq - 1, m.fact, %(worker_id)s, m.token, m.status, m.latency, m.message, m.detail, t.now
      FROM moved m CROSS JOIN t
     WHERE m.fact IS NOT NULL
    UNION ALL
    SELECT m.id, m.seq, m.to_state, %(worker_id)s, m.token,
           CASE WHEN m.fact IS NULL THEN m.status END, CASE WHEN m.fact IS NULL THEN m.latency END,
           CASE WHEN m.fact IS NULL THEN m.message END,
           CASE m.to_state
                WHEN 'RETRIED' THEN jsonb_strip_nulls(jsonb_build_object(
                     'delay_ms', round(m.delay * 1000), 'due_at', t.now + make_interval(secs => m.delay),
                     'reason', m.reason))
                WHEN 'DLQ' THEN jsonb_build_object('reason', m.reason)
                ELSE m.detail END,
           t.now
      FROM moved m CROSS JOIN t
),
kept AS (
    INSERT INTO webhook_responses (delivery_id, attempt, sealed, created_at)
    SELECT m.id, m.attempt_count, m.response, t.now FROM moved m CROSS JOIN t WHERE m.response IS NOT NULL
),
-- SKIP LOCKED: who has one subscription in hand must not hold up what came of all others. It is paused later.
gone AS MATERIALIZED (
    SELECT s.id
      FROM webhook_subscriptions s
     WHERE s.id IN (SELECT m.subscription_id FROM moved m WHERE m.pauses)
       AND s.state = 'active' AND s.removed_at IS NULL          -- guard: paused once
       FOR NO KEY UPDATE OF s SKIP LOCKED
),
paused AS (
    UPDATE webhook_subscriptions s
       SET state = 'paused', paused_reason = 'the endpoint answered 410 Gone', paused_at = t.now, updated_at = t.now
      FROM gone g CROSS JOIN t
     WHERE s.id = g.id
    RETURNING s.id, s.paused_reason
),
noted AS (
    INSERT INTO webhook_operator_actions (actor, action, target, params, affected, outcome)
    SELECT 'worker ' || %(worker_id)s, 'subscription.pause', p.id::text,
           jsonb_build_object('reason', p.paused_reason), 1, 'done'
      FROM paused p
),
-- By token too: a process that slept can end two leases of one delivery in one batch.
missed AS MATERIALIZED (
    SELECT i.* FROM i WHERE NOT EXISTS (SELECT FROM moved m WHERE m.id = i.id AND m.token = i.token)
),
fenced AS (
    INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write, detail, noted_at)
    SELECT i.id, %(worker_id)s, i.token, i.note,
           jsonb_strip_nulls(jsonb_build_object('status', i.status, 'latency_ms', i.latency, 'error', i.error)), t.now
      FROM missed i
     CROSS JOIN t
      -- Ours, and committed already? The fact tells: RETRIED and DLQ are also what our own reaper writes.
      LEFT JOIN LATERAL (
           SELECT true AS is_ours FROM webhook_delivery_attempts a
            WHERE a.delivery_id = i.id AND a.worker_id = %(worker_id)s
              AND a.fencing_token = i.token AND a.state = coalesce(i.fact, i.to_state)
            ORDER BY a.delivery_id, a.seq DESC LIMIT 1) told ON true
     WHERE told.is_ours IS NULL
    ON CONFLICT ON CONSTRAINT webhook_fenced_writes_once DO NOTHING
    RETURNING delivery_id, fencing_token
)
SELECT i.id, m.id IS NOT NULL AS settled, f.delivery_id IS NOT NULL AS fenced, p.id IS NOT NULL AS paused,
       CASE WHEN m.pauses AND p.id IS NULL THEN m.subscription_id END AS still_to_pause
  FROM i
  LEFT JOIN moved m ON m.id = i.id AND m.token = i.token
  LEFT JOIN fenced f ON f.delivery_id = i.id AND f.fencing_token = i.token
  LEFT JOIN paused p ON p.id = m.subscription_id;

-- name: note_failing
-- Whom somebody has in hand (a resume forgets the note) is passed over: its next failure is noted.
INSERT INTO webhook_failing_subscriptions (subscription_id, since)
SELECT s.id, fencepost_now()
  FROM (SELECT s.id FROM webhook_subscriptions s WHERE s.id = ANY (%(ids)s)
         ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) s
ON CONFLICT (subscription_id) DO NOTHING;

-- name: note_succeeding
DELETE FROM webhook_failing_subscriptions f
 USING (SELECT f.subscription_id FROM webhook_failing_subscriptions f
         WHERE f.subscription_id = ANY (%(ids)s) ORDER BY f.subscription_id FOR UPDATE SKIP LOCKED) g
 WHERE f.subscription_id = g.subscription_id;

-- name: pause_gone
-- Those that settle_many found locked. Ends with the ids that are locked even now.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
gone AS MATERIALIZED (
    SELECT s.id
      FROM webhook_subscriptions s
     WHERE s.id = ANY (%(ids)s) AND s.state = 'active' AND s.removed_at IS NULL         -- guard: paused once
       FOR NO KEY UPDATE OF s SKIP LOCKED
),
paused AS (
    UPDATE webhook_subscriptions s
       SET state = 'paused', paused_reason = 'the endpoint answered 410 Gone', paused_at = t.now, updated_at = t.now
      FROM gone g CROSS JOIN t
     WHERE s.id = g.id
    RETURNING s.id, s.paused_reason
),
noted AS (
    INSERT INTO webhook_operator_actions (actor, action, target, params, affected, outcome)
    SELECT 'worker ' || %(worker_id)s, 'subscription.pause', p.id::text,
           jsonb_build_object('reason', p.paused_reason), 1, 'done'
      FROM paused p
)
SELECT s.id
  FROM webhook_subscriptions s
 WHERE s.id = ANY (%(ids)s) AND s.state = 'active' AND s.removed_at IS NULL
   AND NOT EXISTS (SELECT FROM paused p WHERE p.id = s.id);

-- name: pause_failing
-- Failing without one success for five days, of those that have failed just now: silence is no failure.
-- The note is the start; a newer one is a newer start. Who is locked is paused at a later failure.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
failing AS MATERIALIZED (
    SELECT s.id, f.since
      FROM webhook_subscriptions s
      JOIN webhook_failing_subscriptions f ON f.subscription_id = s.id
     CROSS JOIN t
     WHERE s.id = ANY (%(ids)s) AND f.since <= t.now - %(after)s::interval
       AND s.state = 'active' AND s.removed_at IS NULL                                -- guard: paused once
       FOR NO KEY UPDATE OF s SKIP LOCKED
),
paused AS (
    UPDATE webhook_subscriptions s
       SET state = 'paused', paused_at = t.now, updated_at = t.now,
           paused_reason = 'failing without one success since ' || to_char(f.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'
      FROM failing f CROSS JOIN t
     WHERE s.id = f.id
    RETURNING s.id, s.paused_reason
),
forgotten AS (
    DELETE FROM webhook_failing_subscriptions f USING paused p WHERE f.subscription_id = p.id
)
INSERT INTO webhook_operator_actions (actor, action, target, params, affected, outcome)
SELECT 'worker ' || %(worker_id)s, 'subscription.pause', p.id::text,
       jsonb_build_object('reason', p.paused_reason), 1, 'done'
  FROM paused p
RETURNING target;
