-- Bulk replays: a draft fixes scope and numbers, a worker requeues in batches, part by part.

-- name: columns
id, state, filter, is_newest_first, reason, rate_per_second, matched, eligible, already_delivered, not_eligible, requeued,
skipped, delivered, failed, passed_on, first_failures, paused_reason, failure, created_by, created_at, expires_at,
started_by, started_at, finished_at

-- name: draft_replay
-- Snapshot and counts are of the same moment: what moves later is not in it, whoever committed first.
-- Why one is not eligible is what its turn would say: replay_moves in operators.sql.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
counted AS MATERIALIZED (
    SELECT d.subscription_id, o.obstacle, d.current_state = 'DELIVERED' AS was_delivered, count(*) AS n
      FROM webhook_deliveries d
      LEFT JOIN webhook_subscriptions s ON s.id = d.subscription_id AND s.removed_at IS NULL
      LEFT JOIN webhook_events e ON e.id = d.event_id AND e.erased_at IS NOT NULL
     CROSS JOIN LATERAL (
           SELECT CASE WHEN d.discarded_at IS NOT NULL AND NOT %(with_discarded)s THEN 'discarded'
                       WHEN d.worker_id IS NOT NULL THEN 'held'
                       WHEN d.current_state IN ('RECEIVED', 'ENCRYPTED') THEN 'waiting'
                       WHEN s.id IS NULL THEN 'removed'
                       WHEN e.id IS NOT NULL THEN 'erased'
                       WHEN d.current_state = 'RETRIED' AND d.next_attempt_at <= (SELECT now FROM t)
                            AND (SELECT a.state FROM webhook_delivery_attempts a
                                  WHERE a.delivery_id = d.id AND a.seq = d.seq - 1) = 'REPLAYED' THEN 'replayed'
                  END AS obstacle) o
     WHERE {conditions}
     GROUP BY d.subscription_id, o.obstacle, d.current_state = 'DELIVERED'
),
drafted AS (
    INSERT INTO webhook_replays
           (id, filter, is_newest_first, snapshot, reason, rate_per_second, matched, eligible, already_delivered,
            not_eligible, created_by, created_at, expires_at)
    SELECT fencepost_uuid7(t.now), %(filter)s, %(is_newest_first)s, pg_current_snapshot(), %(reason)s, %(rate)s,
           c.matched, c.eligible, c.already_delivered, c.not_eligible, %(actor)s, t.now, t.now + %(life)s
      FROM t
     CROSS JOIN (SELECT coalesce(sum(n), 0) AS matched,
                        coalesce(sum(n) FILTER (WHERE obstacle IS NULL), 0) AS eligible,
                        coalesce(sum(n) FILTER (WHERE obstacle IS NULL AND was_delivered), 0) AS already_delivered,
                        (SELECT coalesce(jsonb_object_agg(o.obstacle, o.n), '{{}}')
                           FROM (SELECT obstacle, sum(n) AS n FROM counted WHERE obstacle IS NOT NULL
                                  GROUP BY obstacle) o) AS not_eligible
                   FROM counted) c
    RETURNING {columns}
),
parts AS (
    INSERT INTO webhook_replay_parts (replay_id, subscription_id, eligible)
    SELECT r.id, c.subscription_id, sum(c.n)
      FROM counted c CROSS JOIN drafted r
     WHERE c.obstacle IS NULL
     GROUP BY r.id, c.subscription_id
)
SELECT {columns} FROM drafted

-- name: get_replay
SELECT {columns} FROM webhook_replays WHERE id = %(id)s

-- name: list_parts
SELECT p.subscription_id, s.name, p.eligible, p.requeued, p.next_batch_at IS NULL AS is_done
  FROM webhook_replay_parts p
  LEFT JOIN webhook_subscriptions s ON s.id = p.subscription_id
 WHERE p.replay_id = %(id)s
 ORDER BY p.eligible DESC, p.subscription_id
 LIMIT %(limit)s

-- name: measure_parts
SELECT count(*) AS count, coalesce(max(p.eligible), 0) AS largest,
       coalesce(max(p.eligible - p.requeued) FILTER (WHERE p.next_batch_at IS NOT NULL), 0) AS longest
  FROM webhook_replay_parts p
 WHERE p.replay_id = %(id)s

-- name: list_replays
SELECT {columns}
  FROM webhook_replays
 WHERE started_at IS NOT NULL AND {keyset}   -- neither drafts nor those that were dropped as such
 ORDER BY {order}
 LIMIT %(limit)s

-- name: lock_replay
-- Two who press at once, or one and the worker's batch, follow each other.
SELECT {columns}, expires_at <= fencepost_now() AS is_expired
  FROM webhook_replays
 WHERE id = %(id)s
   FOR NO KEY UPDATE

-- name: start_replay
UPDATE webhook_replays
   SET state = 'RUNNING', reason = %(reason)s, rate_per_second = %(rate)s, is_newest_first = %(is_newest_first)s,
       started_by = %(actor)s, started_at = fencepost_now()
 WHERE id = %(id)s
   AND state = 'DRAFT'                                 -- guard: started once
RETURNING {columns}

-- name: change_state
-- Who goes on with one that paused itself gives it as many attempts as it had at first.
UPDATE webhook_replays
   SET state = %(to_state)s, paused_reason = NULL, recent = '{{}}',
       finished_at = CASE WHEN %(to_state)s = 'CANCELLED' THEN fencepost_now() END
 WHERE id = %(id)s
   AND state = ANY (%(from_states)s)                   -- guard: not finished meanwhile
RETURNING {columns}
