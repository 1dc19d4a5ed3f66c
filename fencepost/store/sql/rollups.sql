-- Figures by the minute and by the hour. Who writes them holds the lock below; fencepost/store/rollups.py
-- says why each row of the trail is counted once.

-- name: read_idle_time
SELECT fencepost_now() - p.ran_at FROM webhook_rollup_progress p

-- name: take_rollup
-- One worker at a time, until the transaction ends. A statement of its own: the next ones see what the last holder did.
SELECT pg_try_advisory_xact_lock(hashtextextended('webhook_rollup', 0)) AS is_ours

-- name: read_progress
SELECT p.upto, p.pending, p.begun_at, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS newest,
       CASE WHEN e.edge > p.folded_upto THEN e.edge END AS fold_before
  FROM webhook_rollup_progress p
 CROSS JOIN LATERAL (SELECT date_bin('1 hour', fencepost_now() - %(kept)s, 'epoch') AS edge) e

-- name: pin_plan
-- For this transaction: what has an index is read by it, and what was read is joined and grouped by hashing,
-- whatever the statistics of the moment say. Probes are lateral: they loop all the same.
SELECT set_config(name, 'off', true)
  FROM unnest('{enable_seqscan, enable_nestloop, enable_mergejoin, enable_sort, jit}'::text[]) AS name

-- name: begin_anew
-- In another cluster, restored from a dump, transactions count from the beginning: old rows would be taken for new.
UPDATE webhook_rollup_progress
   SET upto = pg_snapshot_xmax(pg_current_snapshot())::text::bigint, begun_at = fencepost_now(),
       pending = ARRAY(SELECT x::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS x)

-- name: roll_up
WITH
-- The snapshot with which this very statement reads.
s AS MATERIALIZED (SELECT fencepost_now() AS now, pg_current_snapshot() AS snapshot),
reach AS MATERIALIZED (
    SELECT s.now, least(%(stop)s, pg_snapshot_xmax(s.snapshot)::text::bigint) AS upto,
           ARRAY(SELECT x::text::bigint FROM pg_snapshot_xip(s.snapshot) AS x
                  WHERE x::text::bigint < %(stop)s) AS pending
      FROM s
),
new AS MATERIALIZED (
    SELECT a.delivery_id, a.seq, a.state, a.created_at,
           -- The one thing that a row of each kind has to say here.
           a.detail ->> CASE a.state WHEN 'LEASED' THEN 'waited_for' WHEN 'ATTEMPTED' THEN 'attempt'
                                     WHEN 'RETRIED' THEN 'due_at' WHEN 'FAILED' THEN 'class' WHEN 'DLQ' THEN 'reason' END AS note
      FROM webhook_delivery_attempts a
     WHERE (a.written_in >= %(upto)s AND a.written_in < %(stop)s)
        OR a.written_in = ANY (%(pending)s::bigint[])
),
new_fenced AS MATERIALIZED (
    SELECT f.delivery_id, f.noted_at
      FROM webhook_fenced_writes f
     WHERE ((f.written_in >= %(upto)s AND f.written_in < %(stop)s)
            OR f.written_in = ANY (%(pending)s::bigint[]))
       AND f.noted_at >= %(begun_at)s
),
-- By one probe each, whatever the planner believes of their number. Of most, the whole trail is new.
concerned AS MATERIALIZED (
    SELECT i.*, d.subscription_id
      FROM (SELECT n.delivery_id, min(n.seq) AS first_seq, max(n.seq) AS last_seq, count(*) = max(n.seq) AS is_whole,
                   bool_or(n.state IN ('DELIVERED', 'DLQ')) AS finished
              FROM new n
             GROUP BY n.delivery_id) i
     CROSS JOIN LATERAL (
           SELECT d.subscription_id FROM webhook_deliveries d WHERE d.id = i.delivery_id OFFSET 0) d
),
-- What came before in these trails. It is committed too, but may have been counted long ago.
old AS MATERIALIZED (
    SELECT c.delivery_id, a.seq, a.state, a.created_at,
           a.detail ->> CASE a.state WHEN 'ATTEMPTED' THEN 'attempt' WHEN 'RETRIED' THEN 'due_at'
                                     WHEN 'FAILED' THEN 'class' END AS note
      FROM concerned c
     CROSS JOIN LATERAL (
           SELECT a.seq, a.state, a.created_at, a.detail
             FROM webhook_delivery_attempts a
            WHERE a.delivery_id = c.delivery_id AND a.seq < c.last_seq
              AND a.seq >= CASE WHEN c.finished THEN 1 ELSE c.first_seq - 1 END
              AND ((a.written_in >= %(upto)s AND a.written_in < %(stop)s)
                   OR a.written_in = ANY (%(pending)s::bigint[])) IS NOT TRUE
           OFFSET 0) a
     WHERE NOT c.is_whole
),
told AS (SELECT n.* FROM new n UNION ALL SELECT o.* FROM old o),
-- Each new row with the row before it.
pair AS MATERIALIZED (
    SELECT c.subscription_id, date_bin('1 minute', n.created_at, 'epoch') AS minute, n.delivery_id, n.seq, n.state,
           n.created_at AS at, n.note, b.state AS last_state, b.created_at AS last_at, b.note AS last_note,
           CASE b.state WHEN 'RETRIED' THEN b.note::timestamptz END AS due
      FROM new n
      JOIN concerned c ON c.delivery_id = n.delivery_id
      JOIN told b ON b.delivery_id = n.delivery_id AND b.seq = n.seq - 1
     WHERE n.created_at >= %(begun_at)s
),
finish AS MATERIALIZED (
    SELECT p.* FROM pair p
     WHERE p.state = 'DELIVERED' OR (p.state = 'DLQ' AND p.last_state <> 'DISCARDED')
),
-- The time that the row ended, divided by fencepost.segments.RULES; and the whole way of what is finished.
span AS (
    SELECT p.subscription_id, p.minute,
           CASE WHEN r.measure = {waiting} THEN CASE p.note {waits} END ELSE r.measure END AS measure,
           CASE r.part WHEN 'since_due' THEN greatest(p.last_at, p.due) ELSE p.last_at END AS begin,
           CASE r.part WHEN 'until_due' THEN least(p.due, p.at) ELSE p.at END AS finish
      FROM pair p
      JOIN (VALUES {rules}) AS r(state, part, measure) ON r.state = p.last_state
     WHERE CASE r.part WHEN 'until_due' THEN p.due > p.last_at
                       WHEN 'since_due' THEN p.due IS NULL OR p.due <= p.last_at OR p.due <= p.at
                       ELSE true END
    UNION ALL
    SELECT f.subscription_id, f.minute, {total}, t.created_at, f.at
      FROM finish f
      JOIN told t ON t.delivery_id = f.delivery_id AND t.seq = 1
     WHERE NOT EXISTS (SELECT FROM told x
                        WHERE x.delivery_id = f.delivery_id AND x.state = 'REPLAYED' AND x.seq < f.seq)
),
cell AS MATERIALIZED (
    SELECT g.subscription_id, g.minute,
           g.measure * {width} + least({last}, ceil(
               ln(greatest(1, date_part('epoch', g.finish - g.begin) / {smallest})) / {log_gamma}))::integer AS cell,
           count(*) AS count
      FROM span g
     GROUP BY 1, 2, 3
    UNION ALL
    SELECT f.subscription_id, f.minute, CASE CASE f.last_state WHEN 'FAILED' THEN f.last_note ELSE f.note END {reasons} END,
           count(*)
      FROM finish f
     WHERE f.state = 'DLQ'
     GROUP BY 1, 2, 3
),
happened AS (
    SELECT p.subscription_id, p.minute, p.state,
           CASE WHEN p.last_state = 'ATTEMPTED' THEN coalesce(p.last_note, '1') <> '1' END AS was_retry,
           p.last_state = 'DISCARDED' AS by_operator, count(*) AS count
      FROM pair p
     GROUP BY 1, 2, 3, 4, 5
    UNION ALL
    SELECT d.subscription_id, date_bin('1 minute', f.noted_at, 'epoch'), 'fenced', NULL, false, 1
      FROM new_fenced f
     CROSS JOIN LATERAL (
           SELECT d.subscription_id FROM webhook_deliveries d WHERE d.id = f.delivery_id OFFSET 0) d
),
counted AS MATERIALIZED (
    SELECT coalesce(h.subscription_id, {everything}) AS subscription_id, h.minute,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'ENCRYPTED'), 0) AS received,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'ATTEMPTED'), 0) AS attempts,
           coalesce(sum(h.count) FILTER (WHERE h.was_retry IS NOT NULL), 0) AS ended,
           coalesce(sum(h.count) FILTER (WHERE h.was_retry), 0) AS retries,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'DELIVERED'), 0) AS delivered,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'DELIVERED' AND NOT h.was_retry), 0) AS first_delivered,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'FAILED'), 0) AS failed,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'LEASE_EXPIRED'), 0) AS lease_expiries,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'DLQ' AND NOT h.by_operator), 0) AS dead,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'REPLAYED'), 0) AS replayed,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'DISCARDED'), 0) AS discarded,
           coalesce(sum(h.count) FILTER (WHERE h.state = 'fenced'), 0) AS fenced
      FROM happened h
     GROUP BY GROUPING SETS ((h.subscription_id, h.minute), (h.minute))
),
-- With what the minute has already: this statement alone writes it.
merged AS (
    SELECT m.subscription_id, m.minute, m.cell, sum(m.count) AS count
      FROM (SELECT c.subscription_id, c.minute, c.cell, c.count FROM cell c
            UNION ALL
            SELECT {everything}, c.minute, c.cell, c.count FROM cell c
            UNION ALL
            SELECT k.subscription_id, k.minute, u.cell, u.count
              FROM counted k
             CROSS JOIN LATERAL (
                   SELECT r.cells, r.counts FROM webhook_rollups r
                    WHERE r.subscription_id = k.subscription_id AND r.minutes = 1 AND r.starts_at = k.minute
                   OFFSET 0) r
             CROSS JOIN LATERAL unnest(r.cells, r.counts) AS u(cell, count)) m
     GROUP BY m.subscription_id, m.minute, m.cell
),
packed AS (
    SELECT m.subscription_id, m.minute, array_agg(m.cell ORDER BY m.cell) AS cells,
           array_agg(m.count::integer ORDER BY m.cell) AS counts
      FROM merged m
     GROUP BY m.subscription_id, m.minute
),
written AS (
    INSERT INTO webhook_rollups AS r
           (subscription_id, minutes, starts_at, received, attempts, ended, retries, delivered, first_delivered,
            failed, lease_expiries, dead, replayed, discarded, fenced, cells, counts)
    SELECT c.subscription_id, 1, c.minute, c.received, c.attempts, c.ended, c.retries, c.delivered, c.first_delivered,
           c.failed, c.lease_expiries, c.dead, c.replayed, c.discarded, c.fenced,
           coalesce(p.cells, '{{}}'), coalesce(p.counts, '{{}}')
      FROM counted c
      LEFT JOIN packed p ON p.subscription_id = c.subscription_id AND p.minute = c.minute
    {add}
),
progress AS (
    UPDATE webhook_rollup_progress p
       SET upto = r.upto, pending = r.pending, ran_at = r.now,
           as_of = CASE WHEN r.upto < %(stop)s THEN r.now ELSE p.as_of END
      FROM reach r
)
SELECT (SELECT count(*) FROM new) AS rows, r.upto < %(stop)s AS is_caught_up FROM reach r

-- name: add
-- What is there already counts on; the cells are merged.
ON CONFLICT (subscription_id, minutes, starts_at) DO UPDATE
   SET received = r.received + EXCLUDED.received, attempts = r.attempts + EXCLUDED.attempts,
       ended = r.ended + EXCLUDED.ended, retries = r.retries + EXCLUDED.retries,
       delivered = r.delivered + EXCLUDED.delivered,
       first_delivered = r.first_delivered + EXCLUDED.first_delivered, failed = r.failed + EXCLUDED.failed,
       lease_expiries = r.lease_expiries + EXCLUDED.lease_expiries, dead = r.dead + EXCLUDED.dead,
       replayed = r.replayed + EXCLUDED.replayed, discarded = r.discarded + EXCLUDED.discarded,
       fenced = r.fenced + EXCLUDED.fenced, cells = EXCLUDED.cells, counts = EXCLUDED.counts

-- name: fold_minutes
-- Minutes that are old enough become part of their hours, so many at a time: an hour adds up, whatever part came first.
WITH
whose AS (SELECT s.id FROM webhook_subscriptions s UNION ALL SELECT {everything}),
old AS MATERIALIZED (
    SELECT r.*
      FROM whose w
     CROSS JOIN LATERAL (
           SELECT r.ctid AS place FROM webhook_rollups r
            WHERE r.subscription_id = w.id AND r.minutes = 1 AND r.starts_at < %(before)s
            ORDER BY r.starts_at
            LIMIT %(batch)s) r
     LIMIT %(batch)s
),
gone AS (
    DELETE FROM webhook_rollups r WHERE r.ctid = ANY (ARRAY(SELECT o.place FROM old o))
    RETURNING r.*, date_bin('1 hour', r.starts_at, 'epoch') AS hour
),
counted AS MATERIALIZED (
    SELECT g.subscription_id, g.hour, sum(g.received) AS received, sum(g.attempts) AS attempts, sum(g.ended) AS ended,
           sum(g.retries) AS retries, sum(g.delivered) AS delivered, sum(g.first_delivered) AS first_delivered,
           sum(g.failed) AS failed, sum(g.lease_expiries) AS lease_expiries, sum(g.dead) AS dead,
           sum(g.replayed) AS replayed, sum(g.discarded) AS discarded, sum(g.fenced) AS fenced
      FROM gone g
     GROUP BY g.subscription_id, g.hour
),
merged AS (
    SELECT m.subscription_id, m.hour, m.cell, sum(m.count) AS count
      FROM (SELECT g.subscription_id, g.hour, u.cell, u.count
              FROM gone g
             CROSS JOIN LATERAL unnest(g.cells, g.counts) AS u(cell, count)
            UNION ALL
            SELECT k.subscription_id, k.hour, u.cell, u.count
              FROM counted k
             CROSS JOIN LATERAL (
                   SELECT r.cells, r.counts FROM webhook_rollups r
                    WHERE r.subscription_id = k.subscription_id AND r.minutes = 60 AND r.starts_at = k.hour
                   OFFSET 0) r
             CROSS JOIN LATERAL unnest(r.cells, r.counts) AS u(cell, count)) m
     GROUP BY m.subscription_id, m.hour, m.cell
),
packed AS (
    SELECT m.subscription_id, m.hour, array_agg(m.cell ORDER BY m.cell) AS cells,
           array_agg(m.count::integer ORDER BY m.cell) AS counts
      FROM merged m
     GROUP BY m.subscription_id, m.hour
),
written AS (
    INSERT INTO webhook_rollups AS r
           (subscription_id, minutes, starts_at, received, attempts, ended, retries, delivered, first_delivered,
            failed, lease_expiries, dead, replayed, discarded, fenced, cells, counts)
    SELECT c.subscription_id, 60, c.hour, c.received, c.attempts, c.ended, c.retries, c.delivered, c.first_delivered,
           c.failed, c.lease_expiries, c.dead, c.replayed, c.discarded, c.fenced,
           coalesce(p.cells, '{{}}'), coalesce(p.counts, '{{}}')
      FROM counted c
      LEFT JOIN packed p ON p.subscription_id = c.subscription_id AND p.hour = c.hour
    {add}
)
SELECT count(*) FROM old

-- name: forget_hours
WITH whose AS (SELECT s.id FROM webhook_subscriptions s UNION ALL SELECT {everything})
DELETE FROM webhook_rollups r
 USING whose w
 WHERE r.subscription_id = w.id AND r.minutes = 60 AND r.starts_at < %(before)s

-- name: note_folded
UPDATE webhook_rollup_progress SET folded_upto = %(upto)s
