-- Bulk discards: a draft fixes scope and number, then the deliveries are given up in batches.

-- name: columns
id, state, filter, reason, matched, eligible, discarded, skipped, failure, created_by, created_at, expires_at,
started_by, started_at, finished_at

-- name: draft_discard
-- Snapshot and counts are of the same moment: what moves later is not in it, whoever committed first.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
counted AS MATERIALIZED (
    SELECT count(*) AS matched,
           count(*) FILTER (WHERE d.current_state IN ('ENCRYPTED', 'RETRIED', 'DLQ')
                              AND d.discarded_at IS NULL) AS eligible
      FROM webhook_deliveries d
     WHERE {conditions}
)
INSERT INTO webhook_discards
       (id, filter, snapshot, reason, matched, eligible, created_by, created_at, expires_at)
SELECT fencepost_uuid7(t.now), %(filter)s, pg_current_snapshot(), %(reason)s, c.matched, c.eligible, %(actor)s, t.now,
       t.now + %(life)s
  FROM counted c CROSS JOIN t
RETURNING {columns}

-- name: get_discard
SELECT {columns} FROM webhook_discards WHERE id = %(id)s

-- name: list_running
SELECT {columns} FROM webhook_discards WHERE state = 'RUNNING' ORDER BY id LIMIT %(most)s

-- name: lock_discard
-- Two who press at once, or one and a batch, follow each other.
SELECT {columns}, expires_at <= fencepost_now() AS is_expired
  FROM webhook_discards
 WHERE id = %(id)s
   FOR NO KEY UPDATE

-- name: start_discard
UPDATE webhook_discards
   SET state = 'RUNNING', reason = %(reason)s, started_by = %(actor)s, started_at = fencepost_now()
 WHERE id = %(id)s
   AND state = 'DRAFT'                                 -- guard: started once
RETURNING {columns}

-- name: cancel_discard
UPDATE webhook_discards
   SET state = 'CANCELLED', finished_at = fencepost_now()
 WHERE id = %(id)s
   AND state IN ('DRAFT', 'RUNNING')                   -- guard: not finished meanwhile
RETURNING {columns}

-- name: is_any_running
SELECT EXISTS (SELECT FROM webhook_discards WHERE state = 'RUNNING')

-- name: take_running
-- The lock is the claim: other workers pass over it, and a cancel waits for the end of the batch.
SELECT {columns}
  FROM webhook_discards
 WHERE state = 'RUNNING'
 ORDER BY id
 LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED

-- name: unmoved_since_draft
-- What had moved by the time of the draft, and not since: never more than was counted and confirmed.
pg_visible_in_snapshot(d.moved_in, (SELECT r.snapshot FROM webhook_discards r WHERE r.id = %(discard_id)s))

-- name: discard_batch
-- Deliveries, trail, counters and the place to go on from: one statement.
WITH
picked AS MATERIALIZED (
    SELECT d.id
      FROM webhook_deliveries d
     WHERE {conditions}
       AND {guard}
       AND d.current_state IN ('ENCRYPTED', 'RETRIED', 'DLQ') AND d.discarded_at IS NULL
       AND d.id > coalesce((SELECT r.last_id FROM webhook_discards r WHERE r.id = %(discard_id)s),
                           '00000000-0000-0000-0000-000000000000')
     ORDER BY d.id
     LIMIT %(limit)s
),
{moves},
done AS MATERIALIZED (
    SELECT (SELECT count(*) FROM moved) AS discarded, (SELECT count(*) FROM picked) < %(limit)s AS is_last,
           (SELECT id FROM picked ORDER BY id DESC LIMIT 1) AS last_id
)
UPDATE webhook_discards r
   SET discarded = r.discarded + b.discarded,
       last_id = coalesce(b.last_id, r.last_id),
       state = CASE WHEN b.is_last THEN 'DONE' ELSE r.state END,
       finished_at = CASE WHEN b.is_last THEN t.now END,
       -- Who left their state since the draft are not met any more: what is left over at the end.
       skipped = CASE WHEN b.is_last THEN r.eligible - r.discarded - b.discarded ELSE r.skipped END
  FROM done b CROSS JOIN t
 WHERE r.id = %(discard_id)s
   AND r.state = 'RUNNING'                             -- guard: not cancelled
RETURNING r.id, r.state, r.filter, r.reason, r.matched, r.eligible, r.discarded, r.skipped, r.failure, r.created_by,
          r.created_at, r.expires_at, r.started_by, r.started_at, r.finished_at

-- name: fail_discard
UPDATE webhook_discards
   SET state = 'FAILED', failure = %(failure)s, finished_at = fencepost_now()
 WHERE id = %(id)s AND state = 'RUNNING'
