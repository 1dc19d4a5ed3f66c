-- Bulk replays by subscription: each part has its own place and pace, and outcomes are counted as they come.

-- Lock: ACCESS EXCLUSIVE on a small table for a catalog change.
ALTER TABLE webhook_replays
    ADD COLUMN is_newest_first   boolean NOT NULL DEFAULT false,
    ADD COLUMN not_eligible      jsonb NOT NULL DEFAULT '{}',   -- reason to number: why the others of the matched are not
    ADD COLUMN already_delivered bigint NOT NULL DEFAULT 0,     -- of the eligible, those delivered when it was drafted
    ADD COLUMN delivered         bigint NOT NULL DEFAULT 0,     -- of the requeued, as of the last fold
    ADD COLUMN failed            bigint NOT NULL DEFAULT 0,     -- likewise: in the DLQ again
    ADD COLUMN passed_on         bigint NOT NULL DEFAULT 0,     -- likewise: taken over by another replay before they ended
    ADD COLUMN recent            boolean[] NOT NULL DEFAULT '{}',  -- did its last attempts fail, the newest first
    ADD COLUMN first_failures    uuid[] NOT NULL DEFAULT '{}',
    ADD COLUMN paused_reason     text;                          -- NULL: an operator paused it

-- What the release before began has no parts: it ends, and says so.
UPDATE webhook_replays
   SET state = 'FAILED', finished_at = fencepost_now(),
       failure = 'it was drafted before the migration 0008; draft it again'
 WHERE state IN ('DRAFT', 'RUNNING', 'PAUSED');

-- One part of a replay for each subscription.
CREATE TABLE webhook_replay_parts (
    replay_id       uuid NOT NULL REFERENCES webhook_replays,
    subscription_id uuid NOT NULL,
    eligible        bigint NOT NULL,
    requeued        bigint NOT NULL DEFAULT 0,
    last_at         timestamptz,                    -- keyset position of the run; NULL: at the start
    last_id         uuid,
    next_batch_at   timestamptz DEFAULT '-infinity',  -- keeps the pace, whichever worker makes the batch; NULL: at the end
    PRIMARY KEY (replay_id, subscription_id)
) WITH (fillfactor = 50);
CREATE INDEX webhook_replay_parts_next ON webhook_replay_parts (replay_id, next_batch_at)
    WHERE next_batch_at IS NOT NULL;

-- What became of requeued deliveries, until a worker adds it up. Nobody waits for anybody here: rows are only
-- added, and taken out all together.
CREATE TABLE webhook_replay_outcomes (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    replay_id   uuid NOT NULL,
    delivery_id uuid NOT NULL,
    delivered   smallint NOT NULL,                  -- -1: it was, and is sent again
    failed      smallint NOT NULL,
    passed_on   smallint NOT NULL,
    is_failure  boolean                             -- of an attempt; NULL: none ended
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Whoever moves a replayed delivery: worker, reaper or operator, of this release or of the one before.
CREATE FUNCTION webhook_note_replayed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
BEGIN
    INSERT INTO webhook_replay_outcomes (replay_id, delivery_id, delivered, failed, passed_on, is_failure)
    SELECT OLD.replay_id, OLD.id, n.delivered, n.failed, n.passed_on, n.is_failure
      FROM (SELECT is_ours * ((NEW.current_state = 'DELIVERED')::int - (OLD.current_state = 'DELIVERED')::int) AS delivered,
                   is_ours * ((NEW.current_state = 'DLQ')::int - (OLD.current_state = 'DLQ')::int) AS failed,
                   CASE WHEN is_ours = 0 AND OLD.next_attempt_at IS NOT NULL THEN 1 ELSE 0 END AS passed_on,
                   -- An answer, or none in time; not a lease that ran out, and not a fault of our own.
                   CASE WHEN OLD.worker_id IS NOT NULL AND NEW.expiries = 0 AND NEW.budget_start = OLD.budget_start
                         AND (OLD.current_state = 'ATTEMPTED' OR NEW.current_state = 'DLQ')
                        THEN NEW.current_state <> 'DELIVERED' END AS is_failure
              FROM (SELECT (NEW.replay_id IS NOT DISTINCT FROM OLD.replay_id)::int) AS o(is_ours)) n
     WHERE (n.delivered, n.failed, n.passed_on) <> (0, 0, 0) OR n.is_failure IS NOT NULL;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION webhook_note_replayed() FROM PUBLIC;

-- Lock: SHARE ROW EXCLUSIVE on deliveries for a catalog change. Called for nothing that was never replayed,
-- nor for claims, attempts and heartbeats.
CREATE TRIGGER webhook_deliveries_replayed AFTER UPDATE ON webhook_deliveries FOR EACH ROW
    WHEN (OLD.replay_id IS NOT NULL AND NEW.worker_id IS NULL
          AND (NEW.current_state <> OLD.current_state OR NEW.replay_id IS DISTINCT FROM OLD.replay_id))
    EXECUTE FUNCTION webhook_note_replayed();
ALTER TABLE webhook_deliveries ENABLE ALWAYS TRIGGER webhook_deliveries_replayed;

GRANT UPDATE (delivered, failed, passed_on, recent, first_failures, paused_reason) ON webhook_replays TO fencepost_worker;
GRANT SELECT, UPDATE (requeued, last_at, last_id, next_batch_at) ON webhook_replay_parts TO fencepost_worker;
GRANT SELECT, DELETE ON webhook_replay_outcomes TO fencepost_worker;
GRANT SELECT, INSERT ON webhook_replay_parts TO fencepost_dashboard;
