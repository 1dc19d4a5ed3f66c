-- Sessions, links that log in once, and the throttle. Of what is secret there are hashes here.

-- name: user_columns
u.id, u.name, u.role, u.disabled_at, u.created_at

-- name: find_login
SELECT {columns}, u.password_hash FROM webhook_users u WHERE u.name_key = %(name_key)s AND u.disabled_at IS NULL

-- name: open_session
INSERT INTO webhook_sessions (token_hash, user_id) VALUES (%(token_hash)s, %(user_id)s)

-- name: read_session
-- Idle and absolute limits by the database's clock; looked at often, written once a minute.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
found AS MATERIALIZED (
    SELECT s.token_hash, s.last_seen_at, {columns}
      FROM webhook_sessions s
     CROSS JOIN t
      JOIN webhook_users u ON u.id = s.user_id
     WHERE s.token_hash = %(token_hash)s
       AND s.last_seen_at > t.now - %(idle)s AND s.created_at > t.now - %(longest)s
       AND u.disabled_at IS NULL
),
seen AS (
    UPDATE webhook_sessions s SET last_seen_at = t.now
      FROM found f CROSS JOIN t
     WHERE s.token_hash = f.token_hash AND f.last_seen_at < t.now - interval '1 minute'
)
SELECT u.id, u.name, u.role, u.disabled_at, u.created_at FROM found u

-- name: list_open
-- As read_session judges them, but being looked at here is no use of a session.
SELECT s.token_hash
  FROM webhook_sessions s
 CROSS JOIN (SELECT fencepost_now() AS now) t
  JOIN webhook_users u ON u.id = s.user_id
 WHERE s.token_hash = ANY (%(token_hashes)s)
   AND s.last_seen_at > t.now - %(idle)s AND s.created_at > t.now - %(longest)s
   AND u.disabled_at IS NULL

-- name: close_session
DELETE FROM webhook_sessions WHERE token_hash = %(token_hash)s

-- name: drop_expired
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
sessions AS (
    DELETE FROM webhook_sessions s USING t WHERE s.last_seen_at <= t.now - %(idle)s OR s.created_at <= t.now - %(longest)s
),
links AS (DELETE FROM webhook_login_links l USING t WHERE l.expires_at <= t.now)
DELETE FROM webhook_login_failures f USING t WHERE f.last_at <= t.now - %(memory)s

-- name: add_login_link
INSERT INTO webhook_login_links (token_hash, user_id, expires_at)
VALUES (%(token_hash)s, %(user_id)s, fencepost_now() + %(life)s)

-- name: use_login_link
-- Deleted by the first who comes: it is good for one login.
WITH used AS (
    DELETE FROM webhook_login_links l
     WHERE l.token_hash = %(token_hash)s
    RETURNING l.user_id, l.expires_at
)
SELECT {columns}
  FROM used l JOIN webhook_users u ON u.id = l.user_id
 WHERE l.expires_at > fencepost_now() AND u.disabled_at IS NULL

-- name: take_attempt
-- Counted before the password is looked at, under the row's lock: a hundred at once are a hundred.
-- Who must wait is not counted, so that waiting does end.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
counted AS (
    INSERT INTO webhook_login_failures AS f (subject, failures, last_at)
    SELECT %(subject)s, 1, t.now FROM t
    ON CONFLICT (subject) DO UPDATE
       SET failures = CASE WHEN f.last_at <= excluded.last_at - %(memory)s::interval THEN 1 ELSE f.failures + 1 END,
           last_at = excluded.last_at
     WHERE f.failures < %(free)s
        OR f.last_at + make_interval(secs => least(2 ^ least(f.failures - %(free)s, 20), %(longest)s)) <= excluded.last_at
    RETURNING f.subject
)
SELECT CASE WHEN NOT EXISTS (SELECT FROM counted) THEN greatest(1,
            (SELECT extract(epoch FROM f.last_at - t.now) + least(2 ^ least(f.failures - %(free)s, 20), %(longest)s)
               FROM webhook_login_failures f WHERE f.subject = %(subject)s)) ELSE 0 END::double precision AS seconds
  FROM t

-- name: forget_failures
DELETE FROM webhook_login_failures WHERE subject = %(subject)s

-- name: take_back
UPDATE webhook_login_failures SET failures = greatest(failures - 1, 0) WHERE subject = %(subject)s
