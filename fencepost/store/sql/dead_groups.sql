-- The dead letters that nobody gave up, by what they died of: subscription, error class and status together.

-- name: is_due
SELECT due_at <= fencepost_now() FROM webhook_dead_groups_counted

-- name: take_count
SELECT pg_try_advisory_xact_lock(hashtextextended('webhook_dead_groups', 0))

-- name: pin_plan
-- The index has all of it, a third of the time even where every second row is dead; and it is nothing urgent: the
-- other processors have deliveries to send.
SELECT set_config('enable_seqscan', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)

-- name: recount
-- Rows whose number is what it was are not written again.
WITH
counted AS MATERIALIZED (
    SELECT d.subscription_id, coalesce(d.last_error, '') AS error, coalesce(d.last_status, 0) AS status,
           count(*) AS count
      FROM webhook_deliveries d
     WHERE d.dead_at IS NOT NULL AND d.discarded_at IS NULL
     GROUP BY d.subscription_id, coalesce(d.last_error, ''), coalesce(d.last_status, 0)
),
forgotten AS (
    DELETE FROM webhook_dead_groups c
     WHERE NOT EXISTS (SELECT FROM counted n
                        WHERE n.subscription_id = c.subscription_id AND n.error = c.error AND n.status = c.status)
)
INSERT INTO webhook_dead_groups AS c (subscription_id, error, status, count)
SELECT n.subscription_id, n.error, n.status, n.count FROM counted n
ON CONFLICT (subscription_id, error, status) DO UPDATE SET count = excluded.count
 WHERE c.count <> excluded.count

-- name: note_counted
-- A fiftieth of the time at most is spent on it, and it is not more often than every ten seconds.
UPDATE webhook_dead_groups_counted
   SET as_of = %(as_of)s,
       due_at = fencepost_now() + greatest(interval '10 seconds', 50 * (clock_timestamp() - transaction_timestamp()))

-- name: read_counted
SELECT t.as_of
  FROM webhook_dead_groups_counted t
 WHERE (SELECT sum(c.count) FROM webhook_dead_groups c WHERE {conditions}) > %(few)s

-- name: count_counted
SELECT sum(count) FROM webhook_dead_groups

-- name: read_last_entry
-- The newest minute, or long ago hour, in which any delivery entered the DLQ.
SELECT max(r.starts_at) FROM webhook_rollups r
 WHERE r.subscription_id = %(everything)s AND r.dead > 0

-- name: everything
true

-- name: of_sub
c.subscription_id = ANY (%(f_sub)s)

-- name: of_err
c.error = ANY (%(f_err)s)

-- name: of_code
EXISTS (SELECT FROM unnest(%(f_code_low)s::bigint[], %(f_code_high)s::bigint[]) AS r(low, high)
         WHERE c.status BETWEEN r.low AND r.high)

-- name: of_tally
-- As counted last, those that still have a dead letter. Its first and its last are found in the index.
SELECT c.subscription_id, c.error, c.status, c.count, f.dead_at AS first_at, l.dead_at AS last_at, l.id AS sample_id,
       true AS is_all
  FROM (SELECT c.* FROM webhook_dead_groups c
         WHERE {conditions}
         ORDER BY c.count DESC, c.subscription_id, c.error, c.status
         LIMIT %(most)s) c
 CROSS JOIN LATERAL (
       SELECT d.dead_at FROM webhook_deliveries d
        WHERE d.subscription_id = c.subscription_id AND coalesce(d.last_error, '') = c.error
          AND coalesce(d.last_status, 0) = c.status AND d.dead_at IS NOT NULL AND d.discarded_at IS NULL
        ORDER BY d.dead_at, d.id
        LIMIT 1) f
 CROSS JOIN LATERAL (
       SELECT d.dead_at, d.id FROM webhook_deliveries d
        WHERE d.subscription_id = c.subscription_id AND coalesce(d.last_error, '') = c.error
          AND coalesce(d.last_status, 0) = c.status AND d.dead_at IS NOT NULL AND d.discarded_at IS NULL
        ORDER BY d.dead_at DESC, d.id DESC
        LIMIT 1) l

-- name: of_latest
-- The latest of them, as many as can be counted while somebody waits.
SELECT d.subscription_id, d.error, d.status, count(*) AS count, min(d.dead_at) AS first_at, max(d.dead_at) AS last_at,
       (array_agg(d.id ORDER BY d.dead_at DESC, d.id DESC))[1] AS sample_id,
       sum(count(*)) OVER () < %(newest)s AS is_all
  FROM (SELECT d.id, d.dead_at, d.subscription_id, coalesce(d.last_error, '') AS error,
               coalesce(d.last_status, 0) AS status
          FROM webhook_deliveries d
         WHERE {conditions}
         ORDER BY d.dead_at DESC, d.id DESC
         LIMIT %(newest)s) d
 GROUP BY d.subscription_id, d.error, d.status
 ORDER BY count DESC, d.subscription_id, d.error, d.status
 LIMIT %(most)s

-- name: describe
-- What was said at the last failure of each sample, and whether anything of its cause could be sent.
SELECT d.id, s.name AS subscription, s.removed_at IS NOT NULL OR s.id IS NULL AS is_removed, f.error_message AS said
  FROM webhook_deliveries d
  LEFT JOIN webhook_subscriptions s ON s.id = d.subscription_id
  LEFT JOIN LATERAL (
       SELECT a.error_message
         FROM webhook_delivery_attempts a
        WHERE a.delivery_id = d.id AND a.state IN ('FAILED', 'LEASE_EXPIRED')
        ORDER BY a.seq DESC
        LIMIT 1) f ON true
 WHERE d.id = ANY (%(ids)s)
