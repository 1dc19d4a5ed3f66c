-- Deliveries of a window of time; of everything, or of one subscription.

-- name: of_all
true

-- name: of_one
d.subscription_id = %(sub)s

-- name: count_received
-- Those that were made in the window, as they stand now. Ids carry the time: an index range.
SELECT d.current_state, count(*)
  FROM webhook_deliveries d
 WHERE d.id >= fencepost_uuid7_floor(%(since)s) AND d.created_at >= %(since)s
   AND d.id < fencepost_uuid7_floor(%(until)s + interval '1 millisecond') AND d.created_at < %(until)s
   AND {scope}
 GROUP BY d.current_state
