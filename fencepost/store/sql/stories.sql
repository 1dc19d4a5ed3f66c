-- A delivery's story beyond its own row.

-- name: read_excerpt
-- One row more than asked for: what it ends is told with these.
SELECT a.seq, a.state, a.created_at, a.worker_id, a.fencing_token, a.http_status_code, a.latency_ms,
       a.error_message, a.detail
  FROM webhook_delivery_attempts a
 WHERE a.delivery_id = %(id)s AND a.seq >= %(first)s AND a.seq <= %(end)s
 ORDER BY a.seq

-- name: read_before
SELECT min(a.created_at) FILTER (WHERE a.seq = 1) AS origin,
       count(*) FILTER (WHERE a.state = 'ATTEMPTED' AND a.seq < %(first)s) AS attempts
  FROM webhook_delivery_attempts a
 WHERE a.delivery_id = %(id)s AND (a.seq = 1 OR a.seq < %(first)s)

-- name: read_circumstances
-- Behind: the head of an ordered subscription, where that is an earlier one; one probe of the index in order.
SELECT fencepost_now() AS now,
       coalesce((SELECT e.erased_at IS NOT NULL FROM webhook_events e WHERE e.id = %(event_id)s), false) AS is_erased,
       w.workers, w.last_beat,
       (SELECT head.id
          FROM webhook_deliveries d
         CROSS JOIN LATERAL (
               SELECT h.id FROM webhook_deliveries h
                WHERE h.is_ordered AND h.next_attempt_at IS NOT NULL
                  AND h.subscription_id = d.subscription_id
                ORDER BY h.subscription_id, h.position, h.id LIMIT 1) head
         WHERE d.id = %(id)s AND d.is_ordered AND head.id <> d.id) AS behind
  FROM (SELECT count(*) FILTER (WHERE beat_at > fencepost_now() - %(silent_after)s AND state <> 'stopped') AS workers,
               max(beat_at) AS last_beat
          FROM webhook_workers) w

-- name: read_attempt
-- ATTEMPTED follows LEASED at once; its outcome is one row or two.
SELECT a.seq, a.state, a.created_at, a.worker_id, a.fencing_token, a.http_status_code, a.latency_ms,
       a.error_message, a.detail
  FROM (SELECT seq FROM webhook_delivery_attempts
         WHERE delivery_id = %(id)s AND state = 'ATTEMPTED' AND detail @> jsonb_build_object('attempt', %(attempt)s::bigint)
         ORDER BY seq LIMIT 1) sent
  JOIN webhook_delivery_attempts a ON a.delivery_id = %(id)s AND a.seq BETWEEN sent.seq - 1 AND sent.seq + 2
 ORDER BY a.seq

-- name: read_trails
SELECT a.delivery_id, a.seq, a.state, a.created_at, a.worker_id, a.fencing_token, a.http_status_code, a.latency_ms,
       a.error_message, a.detail
  FROM unnest(%(ids)s::uuid[]) AS o(id)
 CROSS JOIN LATERAL (
       SELECT a.*
         FROM webhook_delivery_attempts a
        WHERE a.delivery_id = o.id
        ORDER BY a.seq
        LIMIT %(most)s) a
 ORDER BY a.delivery_id, a.seq

-- name: read_fenced_of_many
SELECT f.delivery_id, f.worker_id, f.fencing_token, f.would_write, f.noted_at, f.detail
  FROM webhook_fenced_writes f
 WHERE f.delivery_id = ANY (%(ids)s)

-- name: list_paused
SELECT s.id FROM webhook_subscriptions s WHERE s.id = ANY (%(subs)s) AND s.state = 'paused' AND s.removed_at IS NULL
