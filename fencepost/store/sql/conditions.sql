-- What a DeliveryFilter means in SQL: one fragment for each of its parameters, joined with AND.
-- No index mentions the state; what it implies of other columns does, and is said beside it.

-- name: everything
true

-- name: id
d.id = ANY (%(f_id)s)

-- name: sub_one
d.subscription_id = %(f_sub)s

-- name: sub_many
d.subscription_id = ANY (%(f_sub)s)

-- name: state
d.current_state IN ({states})

-- name: waiting
d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL

-- name: held
d.worker_id IS NOT NULL

-- name: dead
d.dead_at IS NOT NULL

-- name: phase_waiting
d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.next_attempt_at <= fencepost_now()

-- name: phase_sleeping
d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.next_attempt_at > fencepost_now()

-- name: type
d.event_type LIKE ANY (%(f_type)s::text[])

-- name: since
-- Ids carry the millisecond of created_at: the first half finds the rows, the second is exact.
d.id >= fencepost_uuid7_floor(%(f_since)s) AND d.created_at >= %(f_since)s

-- name: until
d.id < fencepost_uuid7_floor(%(f_until)s + interval '1 millisecond') AND d.created_at < %(f_until)s

-- name: entered_since
d.dead_at >= %(f_since)s

-- name: entered_until
d.dead_at < %(f_until)s

-- name: code_one
-- Written as the index of the dead letters' groups has it, and so is err_one: for those of one subscription.
coalesce(d.last_status, 0) = %(f_code)s

-- name: code
-- A plain column between constants: indexes have it beside their order, and tell before the table is read.
d.last_status BETWEEN {low} AND {high}

-- name: no_code
d.last_status IS NULL

-- name: failed
-- Implied by every status but 2xx; an index has the failures alone.
d.last_error IS NOT NULL

-- name: err_one
coalesce(d.last_error, '') = %(f_err)s

-- name: err
d.last_error = ANY (%(f_err)s)

-- name: min_attempts
d.attempt_count >= %(f_min_attempts)s

-- name: max_attempts
d.attempt_count <= %(f_max_attempts)s

-- name: q_key
d.event_id = (SELECT k.event_id FROM webhook_idempotency_keys k WHERE k.key = %(f_q)s)

-- name: q_id
(d.id BETWEEN %(f_q_low)s AND %(f_q_high)s
 OR d.event_id BETWEEN %(f_q_low)s AND %(f_q_high)s
 OR d.event_id = (SELECT k.event_id FROM webhook_idempotency_keys k WHERE k.key = %(f_q)s))

-- name: replay
d.replay_id = %(f_replay)s

-- name: worker
-- A scalar subquery is asked row by row through the trail's key; EXISTS could become a scan of the whole trail.
(d.worker_id = %(f_worker)s
 OR (SELECT true FROM webhook_delivery_attempts a
      WHERE a.delivery_id = d.id AND a.worker_id = %(f_worker)s LIMIT 1) IS TRUE)

-- name: fenced
-- Refused writes are few: whichever side is shorter is read.
d.id IN (SELECT f.delivery_id FROM webhook_fenced_writes f)

-- name: not_fenced
NOT EXISTS (SELECT FROM webhook_fenced_writes f WHERE f.delivery_id = d.id)

-- name: discarded
d.discarded_at IS NOT NULL

-- name: not_discarded
d.discarded_at IS NULL
