-- Deliveries as people look at them. Lists go by keyset in both directions and never by OFFSET:
-- a page costs the same at any depth. They can be sorted by what an index has in order: by time. An index
-- on how long a delivery took, or on its attempts, would have to be written anew with every attempt.

-- name: columns
d.id, d.event_id, d.event_type, d.subscription_id, d.current_state, d.seq, d.attempt_count, d.max_attempts,
d.budget_start, d.next_attempt_at, d.worker_id, d.fencing_token, d.lease_expires_at, d.last_status, d.last_error,
d.dead_reason, d.dead_at, d.discarded_at, d.replay_id, d.created_at, d.updated_at

-- name: list_deliveries
SELECT {columns}
  FROM webhook_deliveries d
 WHERE {conditions} AND {keyset}
 ORDER BY {order}
 LIMIT %(limit)s

-- name: list_deliveries_of_many
-- Each subscription's own newest, then the newest of those: its index serves the order, whatever the others hold.
SELECT d.*
  FROM unnest(%(f_sub)s::uuid[]) AS of(subscription_id)
 CROSS JOIN LATERAL (
       SELECT {columns}
         FROM webhook_deliveries d
        WHERE d.subscription_id = of.subscription_id AND {conditions} AND {keyset}
        ORDER BY {order}
        LIMIT %(limit)s) d
 ORDER BY {order}
 LIMIT %(limit)s

-- name: refresh_deliveries
SELECT {columns}, ({conditions}) IS TRUE AS matches
  FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS shown(id, place)
  JOIN webhook_deliveries d ON d.id = shown.id
 ORDER BY shown.place

-- name: get_delivery
SELECT {columns} FROM webhook_deliveries d WHERE d.id = %(id)s

-- name: list_of_event
SELECT {columns} FROM webhook_deliveries d WHERE d.event_id = %(event_id)s ORDER BY d.id LIMIT %(limit)s

-- name: read_trail
SELECT a.seq, a.state, a.created_at, a.worker_id, a.fencing_token, a.http_status_code, a.latency_ms,
       a.error_message, a.detail
  FROM webhook_delivery_attempts a
 WHERE a.delivery_id = %(id)s
 ORDER BY a.seq

-- name: read_fenced
SELECT f.delivery_id, f.worker_id, f.fencing_token, f.would_write, f.noted_at, f.detail
  FROM webhook_fenced_writes f
 WHERE f.delivery_id = %(id)s
 ORDER BY f.noted_at, f.id

-- name: read_response
SELECT r.sealed FROM webhook_responses r WHERE r.delivery_id = %(id)s AND r.attempt = %(attempt)s

-- name: count_by_state
SELECT d.current_state, count(*) FROM webhook_deliveries d GROUP BY d.current_state

-- name: count_by_state_of
SELECT d.current_state, count(*)
  FROM webhook_deliveries d
 WHERE d.subscription_id = %(sub)s
 GROUP BY d.current_state

-- name: count_capped
SELECT count(*) FROM (SELECT FROM webhook_deliveries d WHERE {conditions} LIMIT %(most)s) c
