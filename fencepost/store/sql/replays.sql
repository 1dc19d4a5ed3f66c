-- Bulk replays: a draft fixes scope and number, a worker requeues in batches.

-- name: columns
id, state, filter, reason, rate_per_second, matched, eligible, requeued, skipped, failure, created_by, created_at,
expires_at, started_by, started_at, finished_at

-- name: draft_replay
-- Snapshot and counts are of the same moment: what moves later is not in it, whoever committed first.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
counted AS MATERIALIZED (
    SELECT count(*) AS matched,
           count(*) FILTER (
                WHERE d.current_state IN ('RETRIED', 'DLQ', 'DELIVERED')
                  AND (d.discarded_at IS NULL OR %(with_discarded)s)
                  AND s.id IS NOT NULL AND e.id IS NULL) AS eligible
      FROM webhook_deliveries d
      LEFT JOIN webhook_subscriptions s ON s.id = d.subscription_id AND s.removed_at IS NULL
      LEFT JOIN webhook_events e ON e.id = d.event_id AND e.erased_at IS NOT NULL
     WHERE {conditions}
)
INSERT INTO webhook_replays
       (id, filter, snapshot, reason, rate_per_second, matched, eligible, created_by, created_at, expires_at)
SELECT fencepost_uuid7(t.now), %(filter)s, pg_current_snapshot(), %(reason)s, %(rate)s, c.matched, c.eligible,
       %(actor)s, t.now, t.now + %(life)s
  FROM counted c CROSS JOIN t
RETURNING {columns}

-- name: get_replay
SELECT {columns} FROM webhook_replays WHERE id = %(id)s

-- name: count_outcomes
SELECT count(*) FILTER (WHERE d.current_state = 'DELIVERED') AS delivered,
       count(*) FILTER (WHERE d.current_state = 'DLQ') AS failed
  FROM webhook_deliveries d
 WHERE d.replay_id = %(id)s

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
   SET state = 'RUNNING', reason = %(reason)s, rate_per_second = %(rate)s,
       started_by = %(actor)s, started_at = fencepost_now()
 WHERE id = %(id)s
   AND state = 'DRAFT'                                 -- guard: started once
RETURNING {columns}

-- name: change_state
UPDATE webhook_replays
   SET state = %(to_state)s, next_batch_at = NULL,
       finished_at = CASE WHEN %(to_state)s = 'CANCELLED' THEN fencepost_now() END
 WHERE id = %(id)s
   AND state = ANY (%(from_states)s)                   -- guard: not finished meanwhile
RETURNING {columns}

-- name: take_due
-- The lock is the claim: other workers pass over it, and pause and cancel wait for the end of the batch.
SELECT {columns}
  FROM webhook_replays
 WHERE state = 'RUNNING' AND (next_batch_at IS NULL OR next_batch_at <= fencepost_now())
 ORDER BY next_batch_at NULLS FIRST, id
 LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED

-- name: read_wait
-- Seconds until the next batch of any; NULL when none is running.
SELECT extract(epoch FROM min(coalesce(next_batch_at, fencepost_now())) - fencepost_now())::double precision
  FROM webhook_replays
 WHERE state = 'RUNNING'

-- name: unmoved_since_draft
pg_visible_in_snapshot(d.moved_in, (SELECT r.snapshot FROM webhook_replays r WHERE r.id = %(replay_id)s))

-- name: requeue_batch
-- Deliveries, trail, counters and the place to go on from: one statement.
WITH
picked AS MATERIALIZED (
    SELECT d.id, d.seq
      FROM webhook_deliveries d
     WHERE {conditions}
       AND {guard}
       AND d.current_state IN ('RETRIED', 'DLQ', 'DELIVERED')
       AND (d.discarded_at IS NULL OR %(with_discarded)s)
       AND d.id > coalesce((SELECT r.last_id FROM webhook_replays r WHERE r.id = %(replay_id)s),
                           '00000000-0000-0000-0000-000000000000')
     ORDER BY d.id
     LIMIT %(limit)s
),
{moves},
done AS MATERIALIZED (
    SELECT (SELECT count(*) FROM moved) AS requeued, (SELECT count(*) FROM picked) < %(limit)s AS is_last,
           (SELECT id FROM picked ORDER BY id DESC LIMIT 1) AS last_id
)
UPDATE webhook_replays r
   SET requeued = r.requeued + b.requeued,
       last_id = coalesce(b.last_id, r.last_id),
       state = CASE WHEN b.is_last THEN 'DONE' ELSE r.state END,
       finished_at = CASE WHEN b.is_last THEN t.now END,
       -- Who left their state since the draft are not met any more: what is left over at the end.
       skipped = CASE WHEN b.is_last THEN r.eligible - r.requeued - b.requeued ELSE r.skipped END,
       -- The pace is kept from batch to batch, whoever makes it; a second is caught up on, an outage is not.
       -- Without a rate, whose last batch is longest ago goes first.
       next_batch_at = CASE WHEN b.is_last THEN NULL
                            WHEN r.rate_per_second IS NULL THEN t.now
                            ELSE greatest(coalesce(r.next_batch_at, t.now), t.now - interval '1 second')
                                 + make_interval(secs => greatest(b.requeued, 1) / r.rate_per_second) END
  FROM done b CROSS JOIN t
 WHERE r.id = %(replay_id)s
   AND r.state = 'RUNNING'                             -- guard: neither paused nor cancelled
RETURNING r.id, r.state, r.filter, r.reason, r.rate_per_second, r.matched, r.eligible, r.requeued, r.skipped, r.failure,
          r.created_by, r.created_at, r.expires_at, r.started_by, r.started_at, r.finished_at

-- name: fail_replay
UPDATE webhook_replays
   SET state = 'FAILED', failure = %(failure)s, finished_at = fencepost_now()
 WHERE id = %(id)s AND state = 'RUNNING'
