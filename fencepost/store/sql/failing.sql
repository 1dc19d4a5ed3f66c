-- Which subscriptions fail, by the figures of the last minutes.

-- name: read_failing
-- The minutes are found by their time, so that thousands of subscriptions at rest cost nothing.
WITH t AS MATERIALIZED (
    SELECT date_bin('1 minute', fencepost_now() - %(first_try_window)s, 'epoch') AS tried_since,
           date_bin('1 minute', fencepost_now() - %(death_window)s, 'epoch') AS died_since
)
SELECT s.id
  FROM (
       SELECT r.subscription_id, sum(r.ended) FILTER (WHERE r.starts_at >= t.tried_since) AS ended,
              sum(r.ended - r.retries) FILTER (WHERE r.starts_at >= t.tried_since) AS first,
              sum(r.first_delivered) FILTER (WHERE r.starts_at >= t.tried_since) AS first_delivered,
              sum(r.dead) FILTER (WHERE r.starts_at >= t.died_since) AS dead
         FROM webhook_rollups r
        CROSS JOIN t
        WHERE r.minutes = 1 AND r.starts_at >= (SELECT least(t.tried_since, t.died_since) FROM t)
        GROUP BY r.subscription_id) f
  JOIN webhook_subscriptions s ON s.id = f.subscription_id
 WHERE s.removed_at IS NULL
   AND (f.dead > 0 OR (f.ended >= %(least_attempts)s AND f.first_delivered < %(least_share)s * f.first))
 ORDER BY f.dead DESC, s.name, s.id
