-- The one row of settings that the publishing functions obey.

-- name: write_publish_settings
UPDATE webhook_publish_settings
   SET require_sealed = %(require_sealed)s, max_payload_bytes = %(max_payload_bytes)s
 WHERE (require_sealed, max_payload_bytes) IS DISTINCT FROM (%(require_sealed)s, %(max_payload_bytes)s::integer);

-- name: read_publish_settings
SELECT require_sealed, max_payload_bytes FROM webhook_publish_settings;
