-- What producers call. {schema} is where the tables live: a producer's search_path is its own.

-- name: publish_sealed
SELECT first_event_id, is_duplicate, is_alike, first_mac
  FROM {schema}.webhook_publish_sealed(
           %(event_id)s::uuid, %(event_type)s::text, %(content_type)s::text, %(idempotency_key)s::text,
           %(payload_bytes)s::integer, %(key_id)s::text, %(sealed)s::bytea, %(mac)s::bytea, %(node)s::text);

-- name: publish_sealed_many
SELECT first_event_id, is_duplicate, is_alike, first_mac
  FROM {schema}.webhook_publish_sealed_many(
           %(event_ids)s::uuid[], %(event_types)s::text[], %(content_types)s::text[], %(idempotency_keys)s::text[],
           %(payload_bytes)s::integer[], %(key_ids)s::text[], %(sealed)s::bytea[], %(macs)s::bytea[],
           %(node)s::text);

-- name: publish_test
SELECT {schema}.webhook_publish_test(
           %(event_id)s::uuid, %(event_type)s::text, %(content_type)s::text, %(payload_bytes)s::integer,
           %(key_id)s::text, %(sealed)s::bytea, %(node)s::text, %(subscription_id)s::uuid);
