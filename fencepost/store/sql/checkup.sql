-- What `fencepost doctor` looks at. Each is cheap on a database of any size.

-- name: read_server
SELECT current_setting('server_version_num')::int AS version,
       extract(epoch FROM clock_timestamp())::float8 AS clock,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('fsync') AS fsync,
       current_setting('autovacuum') AS autovacuum;

-- name: sleeping_guards
-- A trigger that is not ALWAYS is passed over by a replication role; one that is off, by everybody.
SELECT t.tgrelid::regclass || '.' || t.tgname
  FROM pg_trigger t
 WHERE NOT t.tgisinternal AND t.tgenabled <> 'A'
   AND (t.tgrelid IN ('webhook_deliveries'::regclass, 'webhook_delivery_attempts'::regclass)
        OR t.tgrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'webhook_delivery_attempts'::regclass))
 ORDER BY 1;

-- name: has_partition_of_tomorrow
SELECT to_regclass('webhook_delivery_attempts_'
                   || to_char((fencepost_now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')) IS NOT NULL;

-- name: read_workers
SELECT worker_id, version, extract(epoch FROM fencepost_now() - beat_at)::float8 AS silent_seconds
  FROM webhook_workers
 WHERE state <> 'stopped'
 ORDER BY beat_at DESC;

-- name: oldest_in_outbox
-- The primary key's first row: the oldest but for transactions that commit out of order.
SELECT extract(epoch FROM fencepost_now() - created_at)::float8
  FROM webhook_outbox
 ORDER BY id
 LIMIT 1;

-- name: oldest_expired_lease
SELECT extract(epoch FROM fencepost_now() - min(lease_expires_at))::float8
  FROM webhook_deliveries
 WHERE worker_id IS NOT NULL AND lease_expires_at < fencepost_now();

-- name: read_sealed_endpoints
SELECT id, name, endpoint_sealed
  FROM webhook_subscriptions
 WHERE removed_at IS NULL
 ORDER BY id
 LIMIT %(most)s;

-- name: waiting_key_ids
-- Of a sample: one missing key holds back everything it sealed, so a few rows tell.
SELECT DISTINCT p.key_id
  FROM (SELECT event_id FROM webhook_deliveries
         WHERE worker_id IS NULL AND next_attempt_at IS NOT NULL
         LIMIT %(most)s) d
  JOIN webhook_payloads p ON p.event_id = d.event_id
 ORDER BY 1;

-- name: is_worker_alive
SELECT EXISTS (SELECT FROM webhook_workers
                WHERE state <> 'stopped' AND beat_at > fencepost_now() - %(silence)s::interval);
