-- The workers page. Nothing depends on it: leases alone decide who may write.

-- name: beat
INSERT INTO webhook_workers AS w (worker_id, node, version, transport, concurrency, in_flight, state, attempts_per_minute, p95_ms,
                                  started_at, beat_at)
VALUES (%(worker_id)s, %(node)s, %(version)s, %(transport)s, %(concurrency)s, %(in_flight)s, %(state)s, %(attempts_per_minute)s, %(p95_ms)s,
        fencepost_now(), fencepost_now())
ON CONFLICT (worker_id) DO UPDATE
   SET in_flight = excluded.in_flight, state = excluded.state, beat_at = excluded.beat_at,
       attempts_per_minute = excluded.attempts_per_minute, p95_ms = excluded.p95_ms;

-- name: forget_workers
DELETE FROM webhook_workers WHERE beat_at < fencepost_now() - %(after)s::interval;
