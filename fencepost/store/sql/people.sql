-- Users. Passwords are here as argon2id hashes.

-- name: user_columns
u.id, u.name, u.role, u.disabled_at, u.created_at

-- name: add_user
INSERT INTO webhook_users AS u (id, name, name_key, password_hash, role)
VALUES (fencepost_uuid7(fencepost_now()), %(name)s, %(name_key)s, %(password_hash)s, %(role)s)
ON CONFLICT (name_key) DO NOTHING
RETURNING {columns}

-- name: list_users
SELECT {columns} FROM webhook_users u ORDER BY u.name_key

-- name: find_user
SELECT {columns} FROM webhook_users u WHERE u.name_key = %(name_key)s

-- name: lock_admins
-- Two who demote each other follow each other here: the second sees that one admin is left.
SELECT u.id FROM webhook_users u WHERE u.role = 'admin' AND u.disabled_at IS NULL ORDER BY u.id FOR UPDATE

-- name: change_user
-- NULL keeps what there is.
UPDATE webhook_users u
   SET role = coalesce(%(role)s, u.role), password_hash = coalesce(%(password_hash)s, u.password_hash),
       disabled_at = CASE WHEN %(disabled)s::boolean IS NULL THEN u.disabled_at
                          WHEN %(disabled)s THEN coalesce(u.disabled_at, fencepost_now()) END
 WHERE u.name_key = %(name_key)s
RETURNING {columns}

-- name: close_sessions_of
DELETE FROM webhook_sessions WHERE user_id = %(user_id)s
