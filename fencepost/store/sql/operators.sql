-- What people do to deliveries. Each move and its trail rows are one statement; no worker holds these
-- rows, so what guards them is the state that is read under the row lock.

-- name: replay_moves
-- Of the rows in "picked", each with its place: those that can be sent again are, and every row comes back in "judged".
t AS MATERIALIZED (SELECT fencepost_now() AS now),
found AS MATERIALIZED (
    SELECT l.*, p.place, l.seq <> p.seq AS has_moved
      FROM (SELECT * FROM picked ORDER BY id) p        -- locked in id order: batches never deadlock
     CROSS JOIN LATERAL (
           SELECT d.id, d.current_state AS from_state, d.seq, d.subscription_id, d.event_id, d.next_attempt_at
             FROM webhook_deliveries d
            WHERE d.id = p.id AND {guard}
              FOR NO KEY UPDATE OF d) l
),
judged AS MATERIALIZED (
    SELECT f.id, f.from_state, f.place, s.max_attempts, s.ordered, r.detail ->> 'operator' AS replayed_by, r.created_at AS replayed_at,
           -- The lock was waited for: the row is new, but all else here is as it was before.
           CASE WHEN f.has_moved THEN 'moved'
                WHEN f.from_state NOT IN ('RETRIED', 'DLQ', 'DELIVERED') THEN 'state'
                WHEN s.removed_at IS NOT NULL OR s.id IS NULL THEN 'removed'
                WHEN e.erased_at IS NOT NULL THEN 'erased'
                WHEN r.seq IS NOT NULL THEN 'replayed' END AS obstacle
      FROM found f
     CROSS JOIN t
      LEFT JOIN webhook_subscriptions s ON s.id = f.subscription_id
      LEFT JOIN webhook_events e ON e.id = f.event_id AND e.erased_at IS NOT NULL
      -- Pressed twice: it waits for a worker already, because an operator wanted it to.
      LEFT JOIN LATERAL (
           SELECT a.seq, a.detail, a.created_at
             FROM webhook_delivery_attempts a
            WHERE f.from_state = 'RETRIED' AND f.next_attempt_at <= t.now
              AND a.delivery_id = f.id AND a.seq = f.seq - 1 AND a.state = 'REPLAYED'
           OFFSET 0) r ON true                         -- one probe of the trail's key for each
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'RETRIED', seq = d.seq + 2,
           next_attempt_at = t.now + j.place * interval '1 microsecond',   -- sent in the order in which they were picked
           -- Send now keeps budget and lane; a replay begins anew, behind what is live.
           budget_start = CASE WHEN j.from_state = 'RETRIED' THEN d.budget_start ELSE d.attempt_count END,
           first_attempt_at = CASE WHEN j.from_state = 'RETRIED' THEN d.first_attempt_at END,
           max_attempts = CASE WHEN j.from_state = 'RETRIED' THEN d.max_attempts ELSE j.max_attempts END,
           expiries = CASE WHEN j.from_state = 'RETRIED' THEN d.expiries ELSE 0 END,
           lane = CASE WHEN j.from_state = 'RETRIED' THEN d.lane ELSE 1 END,
           is_ordered = d.is_ordered OR j.ordered,     -- re-enters at its old place
           dead_at = NULL, dead_reason = NULL, discarded_at = NULL,
           replay_id = coalesce(%(replay_id)s, d.replay_id),
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM judged j CROSS JOIN t
     WHERE d.id = j.id AND j.obstacle IS NULL
    RETURNING d.id, d.seq, d.fencing_token, j.from_state
),
trail AS (
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, fencing_token, detail, created_at)
    SELECT m.id, m.seq - 1, 'REPLAYED', m.fencing_token,
           jsonb_strip_nulls(jsonb_build_object('operator', %(actor)s::text, 'reason', %(reason)s::text,
                                                'replay_id', %(replay_id)s::uuid)), t.now
      FROM moved m CROSS JOIN t
    UNION ALL
    SELECT m.id, m.seq, 'RETRIED', m.fencing_token,
           jsonb_build_object('delay_ms', 0, 'due_at', t.now,
                              'reason', CASE WHEN m.from_state = 'RETRIED' THEN 'send_now' ELSE 'replay' END), t.now
      FROM moved m CROSS JOIN t
)

-- name: replay_delivery
WITH picked AS MATERIALIZED (SELECT d.id, d.seq, 0 AS place FROM webhook_deliveries d WHERE d.id = %(id)s), {moves}
SELECT j.from_state, j.obstacle, j.replayed_by, j.replayed_at FROM judged j

-- name: discard_moves
-- Of the rows in "picked": those that nobody holds and nobody received are given up.
t AS MATERIALIZED (SELECT fencepost_now() AS now),
judged AS MATERIALIZED (
    SELECT l.*
      FROM (SELECT id FROM picked ORDER BY id) p       -- locked in id order: batches never deadlock
     CROSS JOIN LATERAL (
           SELECT d.id, d.current_state AS from_state,
                  CASE WHEN d.current_state NOT IN ('ENCRYPTED', 'RETRIED', 'DLQ') THEN 'state'
                       WHEN d.discarded_at IS NOT NULL THEN 'discarded' END AS obstacle
             FROM webhook_deliveries d
            WHERE d.id = p.id AND {guard}
              FOR NO KEY UPDATE OF d) l
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'DLQ', seq = d.seq + 2, next_attempt_at = NULL, discarded_at = t.now,
           dead_at = coalesce(d.dead_at, t.now), dead_reason = %(dead_reason)s,
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM judged j CROSS JOIN t
     WHERE d.id = j.id AND j.obstacle IS NULL
    RETURNING d.id, d.seq, d.fencing_token
),
trail AS (
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, fencing_token, detail, created_at)
    SELECT m.id, m.seq - 1, 'DISCARDED', m.fencing_token,
           jsonb_strip_nulls(jsonb_build_object('operator', %(actor)s::text, 'reason', %(reason)s::text)), t.now
      FROM moved m CROSS JOIN t
    UNION ALL
    SELECT m.id, m.seq, 'DLQ', m.fencing_token, jsonb_build_object('reason', %(dead_reason)s::text), t.now
      FROM moved m CROSS JOIN t
)

-- name: discard_delivery
WITH picked AS MATERIALIZED (SELECT %(id)s::uuid AS id), {moves}
SELECT j.from_state, j.obstacle FROM judged j

-- name: any_row
true
