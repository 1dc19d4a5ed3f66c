-- Events as people look at them.

-- name: get_event
-- Fanned out means gone from the outbox: the row goes in the statement that makes the deliveries.
SELECT e.id, e.event_type, e.content_type, e.payload_bytes, e.idempotency_key, e.node, e.sealed_by,
       e.only_subscription_id, e.erased_at, e.created_at,
       NOT EXISTS (SELECT FROM webhook_outbox o WHERE o.event_id = e.id) AS is_fanned_out
  FROM webhook_events e
 WHERE e.id = %(id)s

-- name: read_payload
-- Sealed, or in the outbox until fan-out seals it.
SELECT e.event_type, e.content_type, e.erased_at, p.sealed, o.payload AS clear
  FROM webhook_events e
  LEFT JOIN webhook_payloads p ON p.event_id = e.id
  LEFT JOIN webhook_outbox o ON o.event_id = e.id
 WHERE e.id = %(id)s
