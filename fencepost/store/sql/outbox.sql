-- From the outbox to deliveries.

-- name: matches
-- Active and paused subscriptions by the types that they want: a pattern that is a whole type is found by index,
-- and few have a wildcard. '*' never means our own events.
kinds AS MATERIALIZED (
    SELECT k.event_type, replace(k.event_type, '_', '\_') AS pattern, k.event_type LIKE 'fencepost.%%' AS is_ours
      FROM unnest(%(event_types)s::text[]) AS k(event_type)
),
matches AS MATERIALIZED (
    SELECT k.event_type, s.id, s.created_at, s.max_attempts, s.ordered
      FROM kinds k
     CROSS JOIN LATERAL (
           SELECT s.* FROM webhook_subscriptions s
            WHERE s.removed_at IS NULL AND s.event_type_patterns @> ARRAY[k.pattern]) s
    UNION
    SELECT k.event_type, s.id, s.created_at, s.max_attempts, s.ordered
      FROM webhook_subscriptions s
      JOIN kinds k
        ON CASE WHEN k.is_ours THEN EXISTS (
                     SELECT FROM unnest(s.event_type_patterns) AS p(pattern)
                      WHERE p.pattern LIKE 'fencepost.%%' AND k.event_type LIKE p.pattern)
                ELSE k.event_type LIKE ANY (s.event_type_patterns) END
     WHERE s.removed_at IS NULL AND fencepost_has_wildcard(s.event_type_patterns)
)

-- name: count_matches
WITH {matches}
SELECT m.event_type, count(*) FROM matches m GROUP BY m.event_type;

-- name: take_fan_out
-- One worker at a time, so that what was published later is never a delivery earlier. Held until the transaction ends.
SELECT pg_try_advisory_xact_lock(hashtextextended('webhook_fan_out', 0)) AS is_ours;

-- name: lock_outbox
-- Other workers pass over what this one has in hand.
SELECT o.id, o.event_id, o.payload, e.event_type, e.content_type, e.idempotency_key IS NOT NULL AS is_keyed
  FROM webhook_outbox o
  JOIN webhook_events e ON e.id = o.event_id
 ORDER BY o.id
 LIMIT %(batch)s
   FOR UPDATE OF o SKIP LOCKED;

-- name: fan_out
-- All of it or nothing: the outbox row goes, and the payload, every delivery and their first trail rows are there.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
i AS MATERIALIZED (
    SELECT * FROM unnest(%(outbox_ids)s::bigint[], %(key_ids)s::text[], %(sealed)s::bytea[], %(macs)s::bytea[])
                  AS i(outbox_id, key_id, sealed, mac)
),
gone AS (
    DELETE FROM webhook_outbox o USING i WHERE o.id = i.outbox_id
    RETURNING o.id, o.event_id, o.created_at, i.key_id, i.sealed, i.mac
),
{matches},
sealed AS (
    INSERT INTO webhook_payloads (event_id, key_id, sealed)
    SELECT g.event_id, g.key_id, g.sealed FROM gone g WHERE g.sealed IS NOT NULL
),
marked AS (
    UPDATE webhook_events e SET sealed_by = 'fan-out' FROM gone g WHERE e.id = g.event_id AND g.sealed IS NOT NULL
),
-- From now on another payload under the same key is told from the same one.
keyed AS (
    UPDATE webhook_idempotency_keys k SET mac = g.mac
      FROM gone g
      JOIN webhook_events e ON e.id = g.event_id
     WHERE g.mac IS NOT NULL AND k.key = e.idempotency_key AND k.event_id = g.event_id AND k.mac IS NULL
),
-- Those that were there when the event was published; a test meets the one that it is for, whatever that wants.
matched AS MATERIALIZED (
    SELECT fencepost_uuid7(t.now) AS id, e.id AS event_id, e.event_type, e.node, e.content_type, s.id AS subscription_id,
           s.max_attempts, s.ordered, g.id AS position, g.created_at AS received_at, coalesce(g.key_id, p.key_id) AS key_id,
           CASE WHEN g.sealed IS NULL THEN 'producer' ELSE 'fan-out' END AS sealed_by
      FROM gone g
     CROSS JOIN t
      JOIN webhook_events e ON e.id = g.event_id
      LEFT JOIN webhook_payloads p ON p.event_id = e.id
     CROSS JOIN LATERAL (
           SELECT m.id, m.created_at, m.max_attempts, m.ordered
             FROM matches m
            WHERE m.event_type = e.event_type AND e.only_subscription_id IS NULL
           UNION ALL
           SELECT s.id, s.created_at, s.max_attempts, s.ordered
             FROM webhook_subscriptions s
            WHERE s.id = e.only_subscription_id AND s.removed_at IS NULL) s
     WHERE s.created_at <= e.created_at
),
made AS (
    INSERT INTO webhook_deliveries
           (id, event_id, subscription_id, event_type, current_state, seq, max_attempts, next_attempt_at, position,
            is_ordered, created_at, updated_at)
    SELECT m.id, m.event_id, m.subscription_id, m.event_type, 'ENCRYPTED', 2, m.max_attempts, t.now, m.position,
           m.ordered, t.now, t.now
      FROM matched m CROSS JOIN t
),
trail AS (
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, detail, created_at)
    SELECT m.id, 1, 'RECEIVED', m.node, 0, jsonb_build_object('node', m.node), m.received_at FROM matched m
    UNION ALL
    SELECT m.id, 2, 'ENCRYPTED', %(worker_id)s, 0,
           jsonb_build_object('key_id', m.key_id, 'sealed_by', m.sealed_by), t.now
      FROM matched m CROSS JOIN t
)
SELECT (SELECT count(*) FROM gone) AS events, (SELECT count(*) FROM matched) AS deliveries;

-- name: ensure_partitions
SELECT webhook_ensure_partitions() AS made;
