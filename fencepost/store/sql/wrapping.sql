-- Which key wraps what is sealed, and wrapping it anew. Every statement is one batch of a primary
-- key; of what is sealed only the head is read and replaced, 98 bytes (sealing.HEAD_MAX): payloads
-- never leave the server.

-- name: read_payloads
SELECT event_id AS id, NULL AS part, substring(sealed FOR 98) AS head
  FROM webhook_payloads
 WHERE event_id > %(id)s
 ORDER BY event_id
 LIMIT %(most)s;

-- name: rewrap_payloads
UPDATE webhook_payloads p
   SET key_id = %(key_id)s, sealed = i.head || substring(p.sealed FROM 99)
  FROM unnest(%(ids)s::uuid[], %(was)s::bytea[], %(heads)s::bytea[]) AS i(id, was, head)
 WHERE p.event_id = i.id
   AND substring(p.sealed FOR 98) = i.was;      -- another rotation was here first: its work stays

-- name: read_endpoints
SELECT id, NULL AS part, substring(endpoint_sealed FOR 98) AS head
  FROM webhook_subscriptions
 WHERE id > %(id)s
 ORDER BY id
 LIMIT %(most)s;

-- name: rewrap_endpoints
-- What is sent stays the same: no config_version is raised and no updated_at moves.
UPDATE webhook_subscriptions s
   SET endpoint_sealed = i.head || substring(s.endpoint_sealed FROM 99)
  FROM unnest(%(ids)s::uuid[], %(was)s::bytea[], %(heads)s::bytea[]) AS i(id, was, head)
 WHERE s.id = i.id
   AND substring(s.endpoint_sealed FOR 98) = i.was;     -- somebody gave it another URL: that stays

-- name: read_headers
SELECT id, NULL AS part, substring(headers_sealed FOR 98) AS head
  FROM webhook_subscriptions
 WHERE id > %(id)s AND headers_sealed IS NOT NULL
 ORDER BY id
 LIMIT %(most)s;

-- name: rewrap_headers
UPDATE webhook_subscriptions s
   SET headers_sealed = i.head || substring(s.headers_sealed FROM 99)
  FROM unnest(%(ids)s::uuid[], %(was)s::bytea[], %(heads)s::bytea[]) AS i(id, was, head)
 WHERE s.id = i.id
   AND substring(s.headers_sealed FOR 98) = i.was;      -- as for the URL

-- name: read_secrets
SELECT id, subscription_id AS part, substring(sealed FOR 98) AS head
  FROM webhook_signing_secrets
 WHERE id > %(id)s
 ORDER BY id
 LIMIT %(most)s;

-- name: rewrap_secrets
UPDATE webhook_signing_secrets k
   SET sealed = i.head || substring(k.sealed FROM 99)
  FROM unnest(%(ids)s::uuid[], %(was)s::bytea[], %(heads)s::bytea[]) AS i(id, was, head)
 WHERE k.id = i.id
   AND substring(k.sealed FOR 98) = i.was;      -- another rotation was here first

-- name: read_responses
SELECT delivery_id AS id, attempt AS part, substring(sealed FOR 98) AS head
  FROM webhook_responses
 WHERE (delivery_id, attempt) > (%(id)s, %(part)s)
 ORDER BY delivery_id, attempt
 LIMIT %(most)s;

-- name: rewrap_responses
UPDATE webhook_responses r
   SET sealed = i.head || substring(r.sealed FROM 99)
  FROM unnest(%(ids)s::uuid[], %(parts)s::integer[], %(was)s::bytea[], %(heads)s::bytea[])
       AS i(id, part, was, head)
 WHERE r.delivery_id = i.id AND r.attempt = i.part
   AND substring(r.sealed FOR 98) = i.was;      -- another rotation was here first

-- name: read_fingerprints
-- Of payloads under an idempotency key. They cannot be made anew without the payload; they go with
-- their keys.
SELECT key AS id, NULL AS part, mac AS head
  FROM webhook_idempotency_keys
 WHERE key > %(id)s AND mac IS NOT NULL
 ORDER BY key
 LIMIT %(most)s;
