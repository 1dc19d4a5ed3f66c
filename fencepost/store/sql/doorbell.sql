-- The doorbell of a sleeping worker: a shortcut, never a necessity. Why it misses nothing: worker/doze.py.

-- name: fall_asleep
-- First the mark, then a transaction id of our own: the projection runs once the row is there.
WITH marked AS MATERIALIZED (
    SELECT setval('webhook_asleep_until', extract(epoch FROM fencepost_now())::bigint + %(seconds)s)
)
SELECT pg_current_xact_id()::text::bigint AS fell_asleep FROM marked;

-- name: stay_asleep
SELECT setval('webhook_asleep_until', extract(epoch FROM fencepost_now())::bigint + %(seconds)s);

-- name: wake_up
SELECT setval('webhook_asleep_until', 0);

-- name: look
-- The cheapest question an idle worker asks. What is waiting and who is under way are of one snapshot.
SELECT EXISTS (SELECT FROM webhook_outbox) AS is_waiting,
       (SELECT s.last_value > 0 FROM webhook_asleep_until s) AS is_marked,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_running;

-- name: bell
SELECT 'webhook_outbox_' || 'webhook_outbox'::regclass::oid AS name;

-- name: ring
-- As a producer would, to hear whether it can be heard.
SELECT pg_notify('webhook_outbox_' || 'webhook_outbox'::regclass::oid, 'test');
