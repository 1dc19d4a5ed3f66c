-- What people did, and were refused.

-- name: log_action
INSERT INTO webhook_operator_actions (actor, action, target, params, affected, outcome, request_id)
VALUES (%(actor)s, %(action)s, %(target)s, %(params)s, %(affected)s, %(outcome)s, %(request_id)s)

-- name: list_actions
SELECT id, actor, action, target, params, affected, outcome, request_id, created_at
  FROM webhook_operator_actions
 WHERE {keyset} AND {conditions}
 ORDER BY {order}
 LIMIT %(limit)s

-- name: everything
true

-- name: of_actor
actor = %(actor)s

-- name: of_action
(action = %(action)s OR starts_with(action, %(action)s || '.'))

-- name: on_target
target = %(target)s

-- name: with_outcome
outcome = %(outcome)s

-- name: since
created_at >= coalesce(%(since_at)s::timestamptz, fencepost_now() - %(since_ago)s::interval)

-- name: until
created_at < coalesce(%(until_at)s::timestamptz, fencepost_now() - %(until_ago)s::interval)
