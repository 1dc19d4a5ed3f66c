-- Limits that hold over all workers, and order.

-- One row for each subscription that has a limit or an order: the claim locks it, so that one worker at a time
-- takes from that subscription. Whoever has set neither has no row, and pays nothing.
CREATE TABLE webhook_flows (
    subscription_id uuid PRIMARY KEY REFERENCES webhook_subscriptions,
    version         bigint NOT NULL DEFAULT 0,      -- raised by every claim: a snapshot from before it is too old to count by
    tokens          double precision NOT NULL DEFAULT 1,  -- of the rate limit, at refilled_at
    refilled_at     timestamptz NOT NULL DEFAULT fencepost_now()
) WITH (fillfactor = 50);
GRANT SELECT, UPDATE (version, tokens, refilled_at) ON webhook_flows TO fencepost_worker;
GRANT SELECT ON webhook_flows TO fencepost_dashboard;

-- Lock: ACCESS EXCLUSIVE on deliveries for the length of a catalog change; constants as defaults rewrite nothing.
ALTER TABLE webhook_deliveries
    ADD COLUMN position bigint,                     -- the outbox row's id: the order in which events were published
    ADD COLUMN is_ordered boolean NOT NULL DEFAULT false;

GRANT UPDATE (is_ordered) ON webhook_deliveries TO fencepost_worker, fencepost_dashboard;

-- The head of an ordered subscription: the oldest that is not finished. Only ordered ones are in it.
CREATE INDEX webhook_deliveries_in_order ON webhook_deliveries (subscription_id, position, id)
    WHERE is_ordered AND current_state IN ('ENCRYPTED', 'RETRIED', 'LEASED', 'ATTEMPTED');

-- How many of a subscription are in flight, over all workers; and, as before, the reaper.
CREATE INDEX webhook_deliveries_held_of ON webhook_deliveries (subscription_id, id)
    WHERE current_state IN ('LEASED', 'ATTEMPTED');
DROP INDEX webhook_deliveries_held;

-- Keeps the row, whichever door a subscription is changed through. A subscription that becomes ordered takes
-- the fan-out's lock: no delivery is made meanwhile that does not know of it.
CREATE FUNCTION webhook_keep_flow() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
BEGIN
    IF NEW.removed_at IS NULL
       AND (NEW.ordered OR NEW.max_in_flight IS NOT NULL OR NEW.rate_limit_per_second IS NOT NULL) THEN
        INSERT INTO webhook_flows (subscription_id) VALUES (NEW.id) ON CONFLICT (subscription_id) DO NOTHING;
    ELSE
        DELETE FROM webhook_flows WHERE subscription_id = NEW.id;
    END IF;
    IF NEW.ordered AND (TG_OP = 'INSERT' OR NOT OLD.ordered) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('webhook_fan_out', 0));
        UPDATE webhook_deliveries SET is_ordered = true
         WHERE subscription_id = NEW.id AND NOT is_ordered
           AND current_state IN ('ENCRYPTED', 'RETRIED', 'LEASED', 'ATTEMPTED');
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION webhook_keep_flow() FROM PUBLIC;
CREATE TRIGGER webhook_subscriptions_flow
    AFTER INSERT OR UPDATE OF max_in_flight, rate_limit_per_second, ordered, removed_at ON webhook_subscriptions
    FOR EACH ROW EXECUTE FUNCTION webhook_keep_flow();

-- The doorbell: whoever commits an event rings, but only while a worker says that it sleeps. A commit with a NOTIFY
-- takes a lock of the whole database; under load nobody sleeps, and so nobody rings. Nothing depends on it.
CREATE TABLE webhook_doorbell (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    is_asleep   boolean NOT NULL DEFAULT false
) WITH (fillfactor = 10);
INSERT INTO webhook_doorbell DEFAULT VALUES;
GRANT SELECT, UPDATE (is_asleep) ON webhook_doorbell TO fencepost_worker;

CREATE FUNCTION webhook_ring() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
BEGIN
    IF (SELECT b.is_asleep FROM webhook_doorbell b) THEN
        PERFORM pg_notify('fencepost_doorbell_' || TG_TABLE_SCHEMA, '');
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION webhook_ring() FROM PUBLIC;
CREATE TRIGGER webhook_outbox_doorbell AFTER INSERT ON webhook_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION webhook_ring();
