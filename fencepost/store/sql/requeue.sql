-- The work of a bulk replay. The lock on its row is the claim: other workers pass over it, and pause and cancel
-- wait for the end of the batch.

-- name: take_due
SELECT {columns}
  FROM webhook_replays r
 CROSS JOIN LATERAL (
       SELECT p.next_batch_at
         FROM webhook_replay_parts p
        WHERE p.replay_id = r.id AND p.next_batch_at <= fencepost_now()
        ORDER BY p.next_batch_at
        LIMIT 1) p
 WHERE r.state = 'RUNNING'
 ORDER BY p.next_batch_at
 LIMIT 1
   FOR NO KEY UPDATE OF r SKIP LOCKED

-- name: read_work
-- Seconds until the next batch of any, NULL when none is running; and whether there are outcomes to count.
-- A part that was never begun is due since -infinity, from which PostgreSQL before 17 subtracts nothing.
SELECT (SELECT extract(epoch FROM min(p.due_at) - fencepost_now())
          FROM webhook_replays r
         CROSS JOIN LATERAL (
               SELECT greatest(p.next_batch_at, fencepost_now()) AS due_at
                 FROM webhook_replay_parts p
                WHERE p.replay_id = r.id AND p.next_batch_at IS NOT NULL
                ORDER BY p.next_batch_at
                LIMIT 1) p
         WHERE r.state = 'RUNNING')::double precision AS due_in,
       EXISTS (SELECT FROM webhook_replay_outcomes) AS has_outcomes

-- name: next_part
SELECT p.subscription_id, p.last_at, p.last_id
  FROM webhook_replay_parts p
 WHERE p.replay_id = %(replay_id)s AND p.next_batch_at <= fencepost_now()
 ORDER BY p.next_batch_at
 LIMIT 1

-- name: unmoved_since_draft
pg_visible_in_snapshot(d.moved_in, (SELECT r.snapshot FROM webhook_replays r WHERE r.id = %(replay_id)s))

-- name: requeue_batch
-- Deliveries, trail, counters and the place to go on from: one statement. A stretch of the part's own index is looked
-- at, so many rows and no more: where few of them are meant, it is the place that moves on.
WITH
looked AS MATERIALIZED (
    SELECT d.id, d.dead_at, d.seq, row_number() OVER (ORDER BY {order}) AS place,
           ({conditions}) AND {guard} AND d.current_state IN ('RETRIED', 'DLQ', 'DELIVERED')
           AND (d.discarded_at IS NULL OR %(with_discarded)s) AS is_meant
      FROM webhook_deliveries d
     WHERE d.subscription_id = %(subscription_id)s AND {stretch} AND {keyset}
     ORDER BY {order}
     LIMIT %(looks)s
),
picked AS MATERIALIZED (
    SELECT l.id, l.seq, l.place FROM looked l WHERE l.is_meant ORDER BY l.place LIMIT %(limit)s
),
{moves},
reached AS MATERIALIZED (
    SELECT CASE WHEN count(*) = %(limit)s THEN max(p.place) ELSE (SELECT max(l.place) FROM looked l) END AS place,
           count(*) < %(limit)s AND (SELECT count(*) FROM looked) < %(looks)s AS is_last
      FROM picked p
),
done AS MATERIALIZED (
    SELECT (SELECT count(*) FROM moved) AS requeued, b.is_last, l.dead_at AS last_at, l.id AS last_id
      FROM reached b LEFT JOIN looked l ON l.place = b.place
),
part AS (
    UPDATE webhook_replay_parts p
       SET requeued = p.requeued + b.requeued,
           last_at = coalesce(b.last_at, p.last_at), last_id = coalesce(b.last_id, p.last_id),
           -- A second is caught up on, a pause or an outage is not. Without a rate, whose last batch is longest ago
           -- goes first.
           next_batch_at = CASE WHEN b.is_last THEN NULL
                                WHEN r.rate_per_second IS NULL THEN t.now
                                ELSE CASE WHEN p.next_batch_at > t.now - interval '1 second' THEN p.next_batch_at
                                          ELSE t.now END
                                     + make_interval(secs => b.requeued / r.rate_per_second) END
      FROM done b
     CROSS JOIN t
     CROSS JOIN webhook_replays r
     WHERE p.replay_id = %(replay_id)s AND p.subscription_id = %(subscription_id)s AND r.id = p.replay_id
    -- Who left their state since the draft are not met any more: what is left over at the end.
    RETURNING CASE WHEN b.is_last THEN p.eligible - p.requeued ELSE 0 END AS skipped
),
ended AS MATERIALIZED (
    SELECT b.is_last AND NOT EXISTS (
                SELECT FROM webhook_replay_parts p
                 WHERE p.replay_id = %(replay_id)s AND p.subscription_id <> %(subscription_id)s
                   AND p.next_batch_at IS NOT NULL) AS all_done
      FROM done b
)
UPDATE webhook_replays r
   SET requeued = r.requeued + b.requeued, skipped = r.skipped + p.skipped,
       state = CASE WHEN e.all_done THEN 'DONE' ELSE r.state END,
       finished_at = CASE WHEN e.all_done THEN t.now END
  FROM done b CROSS JOIN part p CROSS JOIN ended e CROSS JOIN t
 WHERE r.id = %(replay_id)s
   AND r.state = 'RUNNING'                             -- guard: neither paused nor cancelled
RETURNING {columns}

-- name: fail_replay
UPDATE webhook_replays
   SET state = 'FAILED', failure = %(failure)s, finished_at = fencepost_now()
 WHERE id = %(id)s AND state = 'RUNNING'

-- name: fold_outcomes
-- Two workers at once: the second finds nothing left of what the first has taken.
WITH
taken AS (DELETE FROM webhook_replay_outcomes RETURNING id, replay_id, delivery_id, delivered, failed, passed_on, is_failure),
summed AS MATERIALIZED (
    SELECT o.replay_id, sum(o.delivered) AS delivered, sum(o.failed) AS failed, sum(o.passed_on) AS passed_on,
           coalesce((array_agg(o.is_failure ORDER BY o.id DESC) FILTER (WHERE o.is_failure IS NOT NULL))[:%(recent)s],
                    '{}') AS recent,
           coalesce((array_agg(o.delivery_id ORDER BY o.id) FILTER (WHERE o.is_failure))[:%(shown)s], '{}') AS failures
      FROM taken o
     GROUP BY o.replay_id
),
locked AS MATERIALIZED (
    SELECT r.id FROM webhook_replays r WHERE r.id IN (SELECT s.replay_id FROM summed s) ORDER BY r.id FOR NO KEY UPDATE
)
UPDATE webhook_replays r
   SET delivered = r.delivered + s.delivered, failed = r.failed + s.failed, passed_on = r.passed_on + s.passed_on,
       recent = (s.recent || r.recent)[:%(recent)s],
       first_failures = CASE WHEN cardinality(r.first_failures) >= %(shown)s THEN r.first_failures ELSE ARRAY(
           SELECT f.id FROM unnest(r.first_failures || s.failures) WITH ORDINALITY AS f(id, place)
            GROUP BY f.id ORDER BY min(f.place) LIMIT %(shown)s) END
  FROM locked l JOIN summed s ON s.replay_id = l.id
 WHERE r.id = l.id

-- name: pause_failing
-- A receiver that is not mended yet is not what anybody meant to send all these to.
WITH paused AS (
    UPDATE webhook_replays r
       SET state = 'PAUSED', paused_reason = f.failures || ' of its last ' || f.attempts || ' attempts failed'
      FROM (SELECT r.id, cardinality(r.recent) AS attempts, (SELECT count(*) FROM unnest(r.recent) AS u(failed) WHERE u.failed) AS failures
              FROM webhook_replays r
             WHERE r.state = 'RUNNING' AND cardinality(r.recent) = %(recent)s
               FOR NO KEY UPDATE SKIP LOCKED) f
     WHERE r.id = f.id AND r.state = 'RUNNING'
       AND f.failures > %(most)s
    RETURNING r.id, r.paused_reason, r.requeued
)
INSERT INTO webhook_operator_actions (actor, action, target, params, affected, outcome)
SELECT 'worker ' || %(worker_id)s, 'replay.pause', p.id::text, jsonb_build_object('reason', p.paused_reason), NULL, 'done'
  FROM paused p
RETURNING target AS id, params ->> 'reason' AS reason
