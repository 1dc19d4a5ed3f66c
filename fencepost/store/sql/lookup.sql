-- Search: what has this id, this name or this key. Each part is a range of one index.

-- name: by_id
(SELECT 'delivery' AS kind, d.id::text AS id, d.event_type AS label, d.created_at AS at
   FROM webhook_deliveries d WHERE d.id BETWEEN %(low)s AND %(high)s ORDER BY d.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'event', e.id::text, e.event_type, e.created_at
   FROM webhook_events e WHERE e.id BETWEEN %(low)s AND %(high)s ORDER BY e.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'replay', r.id::text, coalesce(r.reason, ''), r.created_at
   FROM webhook_replays r WHERE r.id BETWEEN %(low)s AND %(high)s ORDER BY r.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT 'subscription', s.id::text, s.name, s.created_at
   FROM webhook_subscriptions s WHERE s.id BETWEEN %(low)s AND %(high)s ORDER BY s.id DESC LIMIT %(limit)s)

-- name: by_key
-- Keys are visible ASCII in the order of their bytes, so a beginning is a range, whatever the plan knows of it.
SELECT 'event' AS kind, k.event_id::text AS id, k.key AS label, NULL::timestamptz AS at
  FROM webhook_idempotency_keys k
 WHERE k.key >= %(text)s AND k.key < %(text)s || chr(127)
 ORDER BY k.key
 LIMIT %(limit)s

-- name: by_name
(SELECT 'subscription' AS kind, s.id::text AS id, s.name AS label, s.created_at AS at
   FROM webhook_subscriptions s
  WHERE starts_with(lower(s.name), lower(%(text)s)) AND s.removed_at IS NULL
  ORDER BY s.name LIMIT %(limit)s)
UNION ALL
(SELECT 'worker', w.worker_id, w.node, w.started_at
   FROM webhook_workers w WHERE starts_with(w.worker_id, %(text)s)
  ORDER BY w.started_at DESC LIMIT %(limit)s)
