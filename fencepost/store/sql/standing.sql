-- How deliveries stand now: counted by index and no further than a limit, so that a backlog costs no page more.
-- Every count is of what an index gives in its own order: unordered, it may become a scan of the table.

-- name: of_all
true

-- name: of_one
d.subscription_id = %(sub)s

-- name: read_standing
-- A skip scan visits the lanes that something waits in. In each the due ones stand first, whatever sleeps behind them.
WITH RECURSIVE
t AS MATERIALIZED (SELECT fencepost_now() AS now),
lane AS (
    (SELECT d.subscription_id, d.lane
       FROM webhook_deliveries d
      WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND {scope}
      ORDER BY d.subscription_id, d.lane, d.next_attempt_at
      LIMIT 1)
    UNION ALL
    SELECT following.subscription_id, following.lane
      FROM lane l
     CROSS JOIN LATERAL (
           SELECT d.subscription_id, d.lane
             FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND {scope}
              AND (d.subscription_id, d.lane) > (l.subscription_id, l.lane)
            ORDER BY d.subscription_id, d.lane, d.next_attempt_at
            LIMIT 1) following
),
place AS MATERIALIZED (
    SELECT l.subscription_id, l.lane, t.now, coalesce(s.state = 'paused' AND s.removed_at IS NULL, false) AS is_paused
      FROM lane l
     CROSS JOIN t
      LEFT JOIN webhook_subscriptions s ON s.id = l.subscription_id
),
due AS MATERIALIZED (
    SELECT p.is_paused, d.next_attempt_at AS at
      FROM place p
     CROSS JOIN LATERAL (
           SELECT d.next_attempt_at
             FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
              AND d.subscription_id = p.subscription_id AND d.lane = p.lane AND d.next_attempt_at <= p.now
            ORDER BY d.next_attempt_at
            LIMIT %(most)s) d
     LIMIT %(most)s
)
SELECT (SELECT count(*) FROM due) AS waiting,
       (SELECT count(*) FROM due WHERE is_paused) AS held,
       (SELECT min(first.at)
          FROM place p
         CROSS JOIN LATERAL (
               SELECT d.next_attempt_at AS at
                 FROM webhook_deliveries d
                WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
                  AND d.subscription_id = p.subscription_id AND d.lane = p.lane AND d.next_attempt_at <= p.now
                ORDER BY d.next_attempt_at
                LIMIT 1) first
         WHERE NOT p.is_paused) AS oldest_due_at,
       (SELECT count(*)
          FROM (SELECT
                  FROM place p
                 CROSS JOIN LATERAL (
                       SELECT
                         FROM webhook_deliveries d
                        WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
                          AND d.subscription_id = p.subscription_id AND d.lane = p.lane AND d.next_attempt_at > p.now
                        ORDER BY d.next_attempt_at
                        LIMIT %(most)s) d
                 LIMIT %(most)s) c) AS sleeping,
       (SELECT min(first.at)
          FROM place p
         CROSS JOIN LATERAL (
               SELECT d.next_attempt_at AS at
                 FROM webhook_deliveries d
                WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
                  AND d.subscription_id = p.subscription_id AND d.lane = p.lane AND d.next_attempt_at > p.now
                ORDER BY d.next_attempt_at
                LIMIT 1) first) AS next_due_at,
       (SELECT count(*)
          FROM (SELECT
                  FROM webhook_deliveries d
                 WHERE d.worker_id IS NOT NULL AND {scope}
                 ORDER BY d.subscription_id, d.id
                 LIMIT %(most)s) c) AS in_flight,
       (SELECT count(*)
          FROM (SELECT
                  FROM webhook_deliveries d
                 WHERE d.dead_at IS NOT NULL AND d.discarded_at IS NULL AND {scope}
                 -- As the index of groups has them, which needs no look at the table.
                 ORDER BY d.subscription_id, coalesce(d.last_error, ''), coalesce(d.last_status, 0)
                 LIMIT %(most)s) c) AS dead,
       (SELECT count(*)
          FROM (SELECT
                  FROM webhook_deliveries d
                 WHERE d.dead_at >= t.now - %(lately)s AND d.discarded_at IS NULL AND {scope}
                 ORDER BY d.dead_at DESC
                 LIMIT %(most)s) c) AS dead_lately,
       -- Behind some that were given up; behind very many it is not looked for.
       (SELECT min(d.dead_at) FILTER (WHERE d.discarded_at IS NULL)
          FROM (SELECT d.dead_at, d.discarded_at
                  FROM webhook_deliveries d
                 WHERE d.dead_at IS NOT NULL AND {scope}
                 ORDER BY d.dead_at
                 LIMIT %(few)s) d) AS oldest_dead_at
  FROM t

-- name: read_standing_of_each
WITH t AS MATERIALIZED (SELECT fencepost_now() AS now)
SELECT o.id, waiting.count AS waiting, sleeping.count AS sleeping, dead.count AS dead
  FROM unnest(%(subs)s::uuid[]) AS o(id)
 CROSS JOIN t
 CROSS JOIN LATERAL (
       SELECT count(*)
         FROM (SELECT
                 FROM unnest('{{0,1,2}}'::smallint[]) AS l(lane)
                CROSS JOIN LATERAL (
                      SELECT
                        FROM webhook_deliveries d
                       WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
                         AND d.subscription_id = o.id AND d.lane = l.lane AND d.next_attempt_at <= t.now
                       ORDER BY d.next_attempt_at
                       LIMIT %(most)s) d
                LIMIT %(most)s) c) waiting
 CROSS JOIN LATERAL (
       SELECT count(*)
         FROM (SELECT
                 FROM unnest('{{0,1,2}}'::smallint[]) AS l(lane)
                CROSS JOIN LATERAL (
                      SELECT
                        FROM webhook_deliveries d
                       WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL
                         AND d.subscription_id = o.id AND d.lane = l.lane AND d.next_attempt_at > t.now
                       ORDER BY d.next_attempt_at
                       LIMIT %(most)s) d
                LIMIT %(most)s) c) sleeping
 CROSS JOIN LATERAL (
       SELECT count(*)
         FROM (SELECT
                 FROM webhook_deliveries d
                WHERE d.dead_at IS NOT NULL AND d.discarded_at IS NULL AND d.subscription_id = o.id
                ORDER BY coalesce(d.last_error, ''), coalesce(d.last_status, 0)
                LIMIT %(most)s) c) dead

-- name: read_last_failures
-- Among a subscription's newest that failed and its newest dead letter: nothing is kept by the time of its failure.
SELECT o.id, f.delivery_id, f.status, f.error, f.at
  FROM unnest(%(subs)s::uuid[]) AS o(id)
 CROSS JOIN LATERAL (
       SELECT d.id AS delivery_id, d.last_status AS status, d.last_error AS error, coalesce(d.dead_at, d.updated_at) AS at
         FROM ((SELECT d.*
                  FROM webhook_deliveries d
                 WHERE d.last_error IS NOT NULL AND d.subscription_id = o.id
                 ORDER BY d.id DESC
                 LIMIT %(newest)s)
               UNION ALL
               (SELECT d.*
                  FROM webhook_deliveries d
                 WHERE d.dead_at IS NOT NULL AND d.subscription_id = o.id
                 ORDER BY d.dead_at DESC
                 LIMIT 1)) d
        WHERE d.last_error IS NOT NULL AND d.current_state IN ('RETRIED', 'DLQ')
          AND d.attempt_count > d.budget_start      -- since a replay it has failed again
        ORDER BY coalesce(d.dead_at, d.updated_at) DESC
        LIMIT 1) f

-- name: count_answers
-- Of what was made in the window; the newest, where that is too many.
SELECT d.last_status AS status, count(*)
  FROM (SELECT d.last_status
          FROM webhook_deliveries d
         WHERE d.subscription_id = %(sub)s
           AND d.id >= fencepost_uuid7_floor(%(since)s) AND d.created_at >= %(since)s
           AND d.id < fencepost_uuid7_floor(%(until)s + interval '1 millisecond') AND d.created_at < %(until)s
         ORDER BY d.id DESC
         LIMIT %(most)s) d
 GROUP BY d.last_status
 ORDER BY count(*) DESC, 1

-- name: count_fenced
-- Ids and times go together: the newest are the last.
SELECT count(*) AS count, max(f.noted_at) AS last_at
  FROM (SELECT f.noted_at, f.delivery_id
          FROM webhook_fenced_writes f
         ORDER BY f.id DESC
         LIMIT %(most)s) f
 WHERE f.noted_at > fencepost_now() - %(lately)s
   AND (%(sub)s::uuid IS NULL
        OR (SELECT d.subscription_id FROM webhook_deliveries d WHERE d.id = f.delivery_id) = %(sub)s)
