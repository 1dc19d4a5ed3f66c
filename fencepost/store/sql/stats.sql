-- Figures from the raw tables, for a window of time; of everything, or of one subscription.

-- name: of_all
true

-- name: of_one
d.subscription_id = %(sub)s

-- name: count_received
-- Deliveries that were made in the window, as they stand now. Ids carry the time: an index range.
SELECT d.current_state, count(*) AS received,
       count(*) FILTER (WHERE d.attempt_count >= 1) AS attempted,
       count(*) FILTER (WHERE d.attempt_count = 1) AS attempted_once
  FROM webhook_deliveries d
 WHERE d.id >= fencepost_uuid7_floor(%(since)s) AND d.created_at >= %(since)s
   AND d.id < fencepost_uuid7_floor(%(until)s + interval '1 millisecond') AND d.created_at < %(until)s
   AND {scope}
 GROUP BY d.current_state

-- name: count_moves
-- What happened in the window, whenever its delivery was made: rows of the trail, found by the BRIN index.
SELECT a.state, count(*)
  FROM webhook_delivery_attempts a
 {scope}
 WHERE a.created_at >= %(since)s AND a.created_at < %(until)s
   AND a.state IN ('ATTEMPTED', 'DELIVERED', 'FAILED', 'LEASE_EXPIRED', 'REPLAYED', 'DISCARDED', 'DLQ')
 GROUP BY a.state

-- name: moves_of_one
-- The index of a subscription's list has all that this needs.
  JOIN webhook_deliveries d ON d.id = a.delivery_id AND d.subscription_id = %(sub)s

-- name: count_fenced
SELECT count(*)
  FROM webhook_fenced_writes f
 WHERE f.noted_at >= %(since)s AND f.noted_at < %(until)s AND {scope}

-- name: fenced_of_one
(SELECT d.subscription_id FROM webhook_deliveries d WHERE d.id = f.delivery_id) = %(sub)s

-- name: measure_segments
-- Of the newest deliveries of the window, every stretch of time that has ended. Which rows begin which kind, and where
-- a wait becomes a sleep, is what fencepost.timeline says; a test compares the two.
WITH
sample AS MATERIALIZED (
    SELECT d.id
      FROM webhook_deliveries d
     WHERE d.id >= fencepost_uuid7_floor(%(since)s) AND d.created_at >= %(since)s
       AND d.id < fencepost_uuid7_floor(%(until)s + interval '1 millisecond') AND d.created_at < %(until)s
       AND {scope}
     ORDER BY d.id DESC
     LIMIT %(sample)s
),
step AS MATERIALIZED (
    SELECT a.state, a.created_at AS began, lead(a.created_at) OVER one AS ended, lead(a.detail) OVER one AS ending,
           (a.detail ->> 'due_at')::timestamptz AS due
      FROM sample s
     CROSS JOIN LATERAL (
           SELECT a.delivery_id, a.seq, a.state, a.created_at, a.detail
             FROM webhook_delivery_attempts a
            WHERE a.delivery_id = s.id
            OFFSET 0) a                                -- one probe of the trail's key for each
    WINDOW one AS (PARTITION BY a.delivery_id ORDER BY a.seq)
),
segment AS (
    SELECT k.kind, greatest(extract(epoch FROM k.ended - k.began) * 1000, 0) AS ms
      FROM step s
     CROSS JOIN LATERAL (
           SELECT 'ingest' AS kind, s.began, s.ended WHERE s.state = 'RECEIVED'
           UNION ALL
           SELECT 'preparing', s.began, s.ended WHERE s.state = 'LEASED'
           UNION ALL
           SELECT 'in_flight', s.began, s.ended WHERE s.state = 'ATTEMPTED'
           UNION ALL
           SELECT 'sleeping', s.began, least(s.due, s.ended) WHERE s.state = 'RETRIED' AND s.due > s.began
           UNION ALL
           SELECT CASE WHEN s.ending ->> 'waited_for' = 'paused' THEN 'held' ELSE 'waiting' END,
                  greatest(s.began, s.due), s.ended
            WHERE s.state IN ('ENCRYPTED', 'RETRIED') AND (s.due IS NULL OR s.due <= s.ended)) k
     WHERE s.ended IS NOT NULL
)
SELECT g.kind, g.count, g.p[1] AS p50_ms, g.p[2] AS p95_ms, g.p[3] AS p99_ms, g.max_ms
  FROM (SELECT kind, count(*) AS count, max(ms)::double precision AS max_ms,
               percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY ms::double precision) AS p
          FROM segment
         GROUP BY kind) g
