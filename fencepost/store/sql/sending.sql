-- What a worker needs to build the requests of a batch.

-- name: read_payloads
SELECT e.id AS event_id, e.content_type, e.erased_at IS NOT NULL AS is_erased, p.sealed
  FROM unnest(%(event_ids)s::uuid[]) AS i(id)
  JOIN webhook_events e ON e.id = i.id
  LEFT JOIN webhook_payloads p ON p.event_id = i.id;

-- name: read_endpoints
SELECT s.id, s.endpoint_sealed, s.endpoint_masked, s.signature_scheme, s.signature_header, s.headers_sealed,
       s.max_attempts, s.backoff_base_seconds, s.backoff_cap_seconds, s.retry_preset,
       s.retry_statuses, s.no_retry_statuses, s.state = 'paused' AS is_paused, s.removed_at IS NOT NULL AS is_removed,
       s.config_version,
       coalesce((SELECT array_agg(k.id ORDER BY k.created_at DESC, k.id DESC) FROM webhook_signing_secrets k
                  WHERE k.subscription_id = s.id AND (k.expires_at IS NULL OR k.expires_at > fencepost_now())), '{}') AS secret_ids,
       coalesce((SELECT array_agg(k.sealed ORDER BY k.created_at DESC, k.id DESC) FROM webhook_signing_secrets k
                  WHERE k.subscription_id = s.id AND (k.expires_at IS NULL OR k.expires_at > fencepost_now())), '{}') AS secrets_sealed
  FROM webhook_subscriptions s
 WHERE s.id = ANY (%(subscription_ids)s);
