-- The two halves of every keyset list: where it continues, and in which order.

-- name: from_the_start
true

-- name: older_than
id < %(key_id)s

-- name: newer_than
id > %(key_id)s

-- name: newest_first
id DESC

-- name: oldest_first
id

-- name: entered_before
(dead_at, id) < (%(key_at)s, %(key_id)s)

-- name: entered_after
(dead_at, id) > (%(key_at)s, %(key_id)s)

-- name: last_entered_first
dead_at DESC, id DESC

-- name: first_entered_first
dead_at, id
