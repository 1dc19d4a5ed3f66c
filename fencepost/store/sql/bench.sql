-- What a benchmark asks its own database, as the owner.

-- name: add_waiting
-- Due some time from then on, in no order, as after failures.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
s AS MATERIALIZED (
    SELECT id, max_attempts, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS all_of_them
      FROM webhook_subscriptions WHERE removed_at IS NULL
),
made AS (
    INSERT INTO webhook_deliveries
           (id, event_id, subscription_id, event_type, current_state, seq, max_attempts, next_attempt_at, created_at,
            updated_at)
    SELECT fencepost_uuid7(t.now), fencepost_uuid7(t.now), s.id, 'bench.waiting', 'ENCRYPTED', 2, s.max_attempts,
           t.now + %(due_in)s::interval + random() * interval '1 hour', t.now, t.now
      FROM generate_series(%(start)s::bigint, %(start)s + %(count)s - 1) AS n
     CROSS JOIN t
      JOIN s ON s.place = n %% s.all_of_them
    RETURNING id
)
INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, created_at)
SELECT m.id, r.seq, r.state, 'bench', 0, t.now
  FROM made m CROSS JOIN t CROSS JOIN (VALUES (1, 'RECEIVED'), (2, 'ENCRYPTED')) AS r(seq, state);

-- name: lease_waiting
-- What waits, in nobody's hands: the first half of the way into the DLQ.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'LEASED', worker_id = 'bench', fencing_token = d.fencing_token + 1, seq = d.seq + 1,
           lease_expires_at = t.now + interval '1 hour', moved_in = pg_current_xact_id(), updated_at = t.now
      FROM t
     WHERE d.id IN (SELECT w.id FROM webhook_deliveries w
                     WHERE w.worker_id IS NULL AND w.next_attempt_at IS NOT NULL LIMIT %(limit)s)
    RETURNING d.id, d.seq, d.fencing_token
)
INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, created_at)
SELECT m.id, m.seq, 'LEASED', 'bench', m.fencing_token, t.now FROM moved m CROSS JOIN t;

-- name: bury_leased
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'DLQ', worker_id = NULL, lease_expires_at = NULL, next_attempt_at = NULL, seq = d.seq + 2,
           dead_at = t.now, dead_reason = 'invalid_url', last_error = 'invalid_url',
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM t
     WHERE d.worker_id = 'bench'
    RETURNING d.id, d.seq, d.fencing_token
)
INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, created_at)
SELECT m.id, m.seq - r.before, r.state, 'bench', m.fencing_token, t.now
  FROM moved m CROSS JOIN t CROSS JOIN (VALUES (1, 'FAILED'), (0, 'DLQ')) AS r(before, state);

-- name: count_unfinished
SELECT count(*)
  FROM webhook_deliveries d
 WHERE d.subscription_id = ANY (%(ids)s) AND d.current_state IN ('ENCRYPTED', 'RETRIED', 'LEASED', 'ATTEMPTED')
   AND (d.next_attempt_at IS NULL OR d.next_attempt_at < fencepost_now() + interval '1 hour');

-- name: read_server
SELECT pg_backend_pid() AS pid, current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, fencepost_now() AS now;

-- name: count_running_workers
SELECT count(*) FROM webhook_workers WHERE state = 'running';

-- name: measure_drain
-- From the moment when a tenth was delivered to the moment when nine tenths were: neither start nor end.
WITH
done AS MATERIALIZED (
    SELECT a.created_at FROM webhook_delivery_attempts a WHERE a.state = 'DELIVERED' AND a.created_at >= %(since)s
),
steady AS (SELECT percentile_disc(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY d.created_at) AS p FROM done d)
SELECT (count(*) / nullif(extract(epoch FROM s.p[2] - s.p[1]), 0))::double precision AS per_second
  FROM steady s
  JOIN done d ON d.created_at > s.p[1] AND d.created_at <= s.p[2]
 GROUP BY s.p;

-- name: measure_arrival
-- From the first event to the last outcome: what an event costs before it can be sent is in it.
SELECT (count(*) FILTER (WHERE a.state = 'DELIVERED')
        / nullif(extract(epoch FROM max(a.created_at) FILTER (WHERE a.state = 'DELIVERED')
                                    - min(a.created_at) FILTER (WHERE a.state = 'RECEIVED')), 0))::double precision
       AS per_second
  FROM webhook_delivery_attempts a
 WHERE a.created_at >= %(since)s;

-- name: measure_waits
-- From the moment that a delivery could be sent to the moment that a worker took it; ingest is what came before.
SELECT w.p[1] AS wait_p50, w.p[2] AS wait_p95, w.p[3] AS wait_p99, w.i[1] AS ingest_p50, w.i[2] AS ingest_p95,
       w.i[3] AS ingest_p99
  FROM (SELECT percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY s.wait) AS p,
               percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY s.ingest) AS i
          FROM (SELECT extract(epoch FROM leased.created_at - sealed.created_at)::double precision * 1000 AS wait,
                       extract(epoch FROM sealed.created_at - received.created_at)::double precision * 1000 AS ingest
                  FROM webhook_deliveries d
                  JOIN webhook_delivery_attempts received ON received.delivery_id = d.id AND received.seq = 1
                  JOIN webhook_delivery_attempts sealed ON sealed.delivery_id = d.id AND sealed.seq = 2
                  JOIN webhook_delivery_attempts leased ON leased.delivery_id = d.id AND leased.seq = 3
                 WHERE d.created_at >= %(since)s AND d.created_at < %(until)s AND d.subscription_id = ANY (%(ids)s)) s) w;

-- name: pick_one
SELECT id FROM webhook_deliveries WHERE current_state = 'DELIVERED' ORDER BY id OFFSET %(place)s LIMIT 1;
