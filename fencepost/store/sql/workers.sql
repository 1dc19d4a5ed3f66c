-- The workers as people look at them; what workers themselves write is in registry.sql.

-- name: list_workers
-- The held index has few rows: no more than all workers together hold.
WITH held AS MATERIALIZED (
    SELECT d.worker_id, count(*) AS leases, min(d.updated_at) AS oldest_at,
           count(*) FILTER (WHERE d.lease_expires_at < fencepost_now()) AS overdue
      FROM webhook_deliveries d
     WHERE d.worker_id IS NOT NULL
     GROUP BY d.worker_id
),
fenced AS MATERIALIZED (
    SELECT f.worker_id, count(*) FILTER (WHERE f.noted_at > fencepost_now() - interval '1 hour') AS last_hour, count(*) AS last_day
      FROM webhook_fenced_writes f
     WHERE f.noted_at > fencepost_now() - interval '24 hours'
     GROUP BY f.worker_id
)
SELECT coalesce(w.worker_id, h.worker_id) AS worker_id, w.node, w.version, w.transport, w.concurrency, w.state, w.started_at,
       w.beat_at, w.attempts_per_minute, w.p95_ms, coalesce(h.leases, 0) AS leases, h.oldest_at, coalesce(h.overdue, 0) AS overdue,
       coalesce(f.last_hour, 0) AS fenced_last_hour, coalesce(f.last_day, 0) AS fenced_last_day
  FROM webhook_workers w
  FULL JOIN held h ON h.worker_id = w.worker_id
  LEFT JOIN fenced f ON f.worker_id = coalesce(w.worker_id, h.worker_id)
 ORDER BY coalesce(w.state, 'running') = 'stopped', w.beat_at DESC NULLS FIRST, 1
 LIMIT %(limit)s

-- name: list_fenced
SELECT f.delivery_id, f.worker_id, f.fencing_token, f.would_write, f.detail, f.noted_at
  FROM webhook_fenced_writes f
 ORDER BY f.id DESC
 LIMIT %(limit)s
