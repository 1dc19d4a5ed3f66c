-- Subscriptions: what people configure. Whoever changes one locks its row first, so that changes follow each other.

-- name: columns
id, name, endpoint_origin, endpoint_masked, event_types, signature_scheme, signature_header, header_names,
max_attempts, backoff_base_seconds, backoff_cap_seconds, retry_preset, retry_statuses, no_retry_statuses,
max_in_flight, rate_limit_per_second, ordered, state, paused_reason, created_at, removed_at

-- name: make_ids
-- Before the row: what is sealed is bound to its id.
SELECT fencepost_uuid7(fencepost_now()) AS id, fencepost_uuid7(fencepost_now()) AS secret_id

-- name: add_subscription
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
added AS (
    INSERT INTO webhook_subscriptions
           (id, name, endpoint_sealed, endpoint_origin, endpoint_masked, event_types, event_type_patterns,
            signature_scheme, signature_header, headers_sealed, header_names, max_attempts, backoff_base_seconds,
            backoff_cap_seconds, retry_preset, retry_statuses, no_retry_statuses, max_in_flight, rate_limit_per_second,
            ordered, created_at, updated_at)
    SELECT %(id)s, %(name)s, %(endpoint_sealed)s, %(endpoint_origin)s, %(endpoint_masked)s, %(event_types)s,
           %(event_type_patterns)s, %(signature_scheme)s, %(signature_header)s, %(headers_sealed)s, %(header_names)s,
           %(max_attempts)s, %(backoff_base_seconds)s, %(backoff_cap_seconds)s, %(retry_preset)s,
           %(retry_statuses)s, %(no_retry_statuses)s, %(max_in_flight)s, %(rate_limit_per_second)s, %(ordered)s, t.now, t.now
      FROM t
    RETURNING {columns}
),
secret AS (
    INSERT INTO webhook_signing_secrets (id, subscription_id, sealed, created_at)
    SELECT %(secret_id)s, a.id, %(secret_sealed)s, t.now FROM added a CROSS JOIN t
)
SELECT {columns} FROM added

-- name: get_subscription
SELECT {columns} FROM webhook_subscriptions WHERE id = %(id)s

-- name: find_by_name
SELECT {columns} FROM webhook_subscriptions WHERE name = %(name)s AND removed_at IS NULL ORDER BY id LIMIT 2

-- name: list_subscriptions
SELECT {columns}
  FROM webhook_subscriptions
 WHERE (removed_at IS NULL OR %(with_removed)s) AND {keyset}
 ORDER BY {order}
 LIMIT %(limit)s

-- name: lock_subscription
SELECT {columns} FROM webhook_subscriptions WHERE id = %(id)s AND removed_at IS NULL FOR NO KEY UPDATE

-- name: update_subscription
-- A sealed value that is NULL here stays as it is.
UPDATE webhook_subscriptions
   SET name = %(name)s, event_types = %(event_types)s, event_type_patterns = %(event_type_patterns)s,
       endpoint_sealed = coalesce(%(endpoint_sealed)s, endpoint_sealed),
       endpoint_origin = coalesce(%(endpoint_origin)s, endpoint_origin),
       endpoint_masked = coalesce(%(endpoint_masked)s, endpoint_masked),
       headers_sealed = CASE WHEN %(header_names)s::text[] IS NULL THEN headers_sealed ELSE %(headers_sealed)s END,
       header_names = coalesce(%(header_names)s, header_names),
       signature_scheme = %(signature_scheme)s, signature_header = %(signature_header)s,
       max_attempts = %(max_attempts)s, backoff_base_seconds = %(backoff_base_seconds)s,
       backoff_cap_seconds = %(backoff_cap_seconds)s, retry_preset = %(retry_preset)s,
       retry_statuses = %(retry_statuses)s, no_retry_statuses = %(no_retry_statuses)s,
       max_in_flight = %(max_in_flight)s, rate_limit_per_second = %(rate_limit_per_second)s, ordered = %(ordered)s,
       config_version = config_version + 1, updated_at = fencepost_now()
 WHERE id = %(id)s
   AND removed_at IS NULL                              -- guard: not removed
RETURNING {columns}

-- name: pause_subscription
UPDATE webhook_subscriptions
   SET state = 'paused', paused_reason = %(reason)s, paused_at = fencepost_now(), updated_at = fencepost_now()
 WHERE id = %(id)s
   AND state = 'active' AND removed_at IS NULL         -- guard: paused once; the first reason stays
RETURNING {columns}

-- name: resume_subscription
-- It begins anew: what it failed before does not pause it again.
WITH
forgotten AS (DELETE FROM webhook_failing_subscriptions WHERE subscription_id = %(id)s)
UPDATE webhook_subscriptions
   SET state = 'active', paused_reason = NULL, resumed_at = fencepost_now(), updated_at = fencepost_now()
 WHERE id = %(id)s
   AND state = 'paused' AND removed_at IS NULL         -- guard: resumed once
RETURNING {columns}

-- name: remove_subscription
UPDATE webhook_subscriptions
   SET removed_at = fencepost_now(), config_version = config_version + 1, updated_at = fencepost_now()
 WHERE id = %(id)s
   AND removed_at IS NULL                              -- guard: removed once
RETURNING {columns}

-- name: rotate_secret
-- The newest of the old ones and one more sign on for the overlap, others stop: three are valid at most.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
old AS MATERIALIZED (
    SELECT k.id, row_number() OVER (ORDER BY k.created_at DESC, k.id DESC) AS place
      FROM webhook_signing_secrets k CROSS JOIN t
     WHERE k.subscription_id = %(id)s AND (k.expires_at IS NULL OR k.expires_at > t.now)
),
aged AS (
    UPDATE webhook_signing_secrets k
       SET expires_at = CASE WHEN o.place <= 2 THEN least(k.expires_at, t.now + %(overlap)s) ELSE t.now END
      FROM old o CROSS JOIN t
     WHERE k.id = o.id
),
added AS (
    INSERT INTO webhook_signing_secrets (id, subscription_id, sealed, created_at)
    SELECT %(secret_id)s, %(id)s, %(secret_sealed)s, t.now FROM t
)
UPDATE webhook_subscriptions
   SET config_version = config_version + 1, updated_at = t.now
  FROM t
 WHERE id = %(id)s
RETURNING {columns}

-- name: revoke_secrets
-- All but the current one end now; the worker reads the change at its next batch.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
ended AS (
    UPDATE webhook_signing_secrets k SET expires_at = t.now
      FROM t
     WHERE k.subscription_id = %(id)s AND k.expires_at > t.now
    RETURNING k.id
)
UPDATE webhook_subscriptions
   SET config_version = config_version + 1, updated_at = t.now
  FROM t
 WHERE id = %(id)s
RETURNING (SELECT count(*) FROM ended) AS ended

-- name: list_secrets
SELECT k.id, k.sealed
  FROM webhook_signing_secrets k
 WHERE k.subscription_id = %(id)s AND (k.expires_at IS NULL OR k.expires_at > fencepost_now())
 ORDER BY k.created_at DESC, k.id DESC
