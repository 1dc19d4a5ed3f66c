-- Indexes that say who is in them without the state: LEASED -> ATTEMPTED changes no column that an index mentions,
-- and is a heap-only update. What the states mean for these columns, the guards make certain.

-- What no statement of ours has left behind, and the guard below would refuse.
UPDATE webhook_deliveries SET next_attempt_at = NULL
 WHERE current_state IN ('DELIVERED', 'DLQ') AND next_attempt_at IS NOT NULL;
ALTER TABLE webhook_deliveries DROP CONSTRAINT IF EXISTS waiting_has_due;

-- Lock: ACCESS EXCLUSIVE for the drops, SHARE while the table is read, once for each.
DROP INDEX webhook_deliveries_due, webhook_deliveries_held_of, webhook_deliveries_in_order,
           webhook_deliveries_dead, webhook_deliveries_dead_of;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (subscription_id, lane, next_attempt_at)
    WHERE worker_id IS NULL AND next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_held_of ON webhook_deliveries (subscription_id, id)
    WHERE worker_id IS NOT NULL;
CREATE INDEX webhook_deliveries_in_order ON webhook_deliveries (subscription_id, position, id)
    WHERE is_ordered AND next_attempt_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (dead_at, id)
    WHERE dead_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead_of ON webhook_deliveries (subscription_id, dead_at, id)
    WHERE dead_at IS NOT NULL;
