-- Tokens for programs. The random part is here as a hash.

-- name: add_token
INSERT INTO webhook_api_tokens (id, name, secret_hash, role, expires_at)
VALUES (fencepost_uuid7(fencepost_now()), %(name)s, %(secret_hash)s, %(role)s, fencepost_now() + %(life)s)
RETURNING id, name, role, created_at, expires_at, revoked_at, last_used_at

-- name: read_token
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
found AS MATERIALIZED (
    SELECT k.id, k.name, k.role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
      FROM webhook_api_tokens k CROSS JOIN t
     WHERE k.secret_hash = %(secret_hash)s AND k.id = %(id)s
       AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > t.now)
),
used AS (
    UPDATE webhook_api_tokens k SET last_used_at = t.now
      FROM found f CROSS JOIN t
     WHERE k.id = f.id AND (f.last_used_at IS NULL OR f.last_used_at < t.now - interval '1 minute')
)
SELECT * FROM found

-- name: list_tokens
SELECT id, name, role, created_at, expires_at, revoked_at, last_used_at FROM webhook_api_tokens ORDER BY id DESC

-- name: revoke_token
UPDATE webhook_api_tokens SET revoked_at = fencepost_now()
 WHERE id = %(id)s AND revoked_at IS NULL
RETURNING id, name, role, created_at, expires_at, revoked_at, last_used_at
