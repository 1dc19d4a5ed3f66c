-- What was committed to the trail since somebody looked last, found by the transactions that wrote it: as the
-- rollups find it (fencepost/store/rollups.py), but nothing is written down here.

-- name: pin_plan
-- For this transaction: what is new is found by its index, also where statistics are older than the rows.
SELECT set_config(name, 'off', true) FROM unnest('{enable_seqscan, jit}'::text[]) AS name

-- name: read_changes
-- One snapshot tells what is new, and from where the next look has to read on.
WITH
s AS MATERIALIZED (SELECT fencepost_now() AS now, pg_current_snapshot() AS snapshot),
new AS MATERIALIZED (
    SELECT a.state
      FROM webhook_delivery_attempts a
     WHERE a.written_in >= %(upto)s OR a.written_in = ANY (%(pending)s::bigint[])
     LIMIT %(most)s
)
SELECT s.now, pg_snapshot_xmin(s.snapshot)::text::bigint AS mark,
       pg_snapshot_xmax(s.snapshot)::text::bigint AS upto,
       ARRAY(SELECT x::text::bigint FROM pg_snapshot_xip(s.snapshot) AS x) AS pending,
       n.rows, n.died, n.left_queue,
       EXISTS (SELECT FROM webhook_fenced_writes f
                WHERE f.written_in >= %(upto)s OR f.written_in = ANY (%(pending)s::bigint[])) AS fenced
  FROM s
 CROSS JOIN (SELECT count(*) AS rows,
                    count(*) FILTER (WHERE n.state = 'DLQ') - count(*) FILTER (WHERE n.state = 'DISCARDED') AS died,
                    count(*) FILTER (WHERE n.state IN ('REPLAYED', 'DISCARDED')) AS left_queue
               FROM new n) n
