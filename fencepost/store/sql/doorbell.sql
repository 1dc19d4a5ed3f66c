-- The doorbell of a sleeping worker: a shortcut, never a necessity.

-- name: fall_asleep
UPDATE webhook_doorbell SET is_asleep = true WHERE NOT is_asleep;

-- name: wake_up
UPDATE webhook_doorbell SET is_asleep = false WHERE is_asleep;

-- name: ring
-- To hear whether the bell can be heard: not through a pooler that lends connections by the transaction.
SELECT pg_notify('fencepost_doorbell_' || current_schema(), 'test');
