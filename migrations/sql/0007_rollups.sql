-- Figures by the minute, kept by the worker: how long each stretch took, and how often what happened.

-- Which transaction wrote a row: what was committed since the last look is found by that, whatever its time says.
-- Rows from before this revision have none, and are never counted.
-- Lock: ACCESS EXCLUSIVE on the trail and its partitions for catalog changes; nothing is rewritten.
ALTER TABLE webhook_delivery_attempts ADD COLUMN written_in bigint;
ALTER TABLE webhook_delivery_attempts ALTER COLUMN written_in SET DEFAULT pg_current_xact_id()::text::bigint;
-- Lock: SHARE on each partition while it is read once.
CREATE INDEX webhook_delivery_attempts_written ON webhook_delivery_attempts
    USING brin (written_in) WITH (autosummarize = on);

-- Lock: ACCESS EXCLUSIVE for a catalog change, SHARE while a small table is read.
ALTER TABLE webhook_fenced_writes ADD COLUMN written_in bigint;
ALTER TABLE webhook_fenced_writes ALTER COLUMN written_in SET DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX webhook_fenced_writes_written ON webhook_fenced_writes (written_in);

-- One row for each minute, later for each hour, in which something ended, and subscription; the nil UUID is
-- everything together. Rows add up: counters by themselves, durations cell by cell.
CREATE TABLE webhook_rollups (
    subscription_id uuid NOT NULL,
    minutes         smallint NOT NULL CHECK (minutes IN (1, 60)),
    starts_at       timestamptz NOT NULL,
    received        integer NOT NULL,               -- deliveries made
    attempts        integer NOT NULL,               -- requests that left
    ended           integer NOT NULL,               -- attempts that ended: answered, failed, or lease expired
    retries         integer NOT NULL,               -- of those, not the first of their delivery
    delivered       integer NOT NULL,
    first_delivered integer NOT NULL,               -- of those, by the first attempt
    failed          integer NOT NULL,               -- attempts, and claims
    lease_expiries  integer NOT NULL,
    dead            integer NOT NULL,               -- into the DLQ, other than by an operator
    replayed        integer NOT NULL,
    discarded       integer NOT NULL,
    fenced          integer NOT NULL,               -- late writes that were refused
    cells           integer[] NOT NULL,             -- ascending; see fencepost/cells.py
    counts          integer[] NOT NULL,             -- how many in each
    PRIMARY KEY (subscription_id, minutes, starts_at),
    CONSTRAINT each_cell_has_its_count CHECK (cardinality(cells) = cardinality(counts))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- How far the trail is counted. Not a flag: whoever holds the advisory lock works, and a crash leaves what was
-- committed last.
CREATE TABLE webhook_rollup_progress (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    upto        bigint NOT NULL DEFAULT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    pending     bigint[] NOT NULL DEFAULT '{}',     -- below it, but had not ended when they were looked for
    begun_at    timestamptz NOT NULL DEFAULT fencepost_now(),  -- what is older is not counted
    ran_at      timestamptz NOT NULL DEFAULT 'epoch',
    as_of       timestamptz NOT NULL DEFAULT fencepost_now(),  -- what was committed by then is counted
    folded_upto timestamptz NOT NULL DEFAULT 'epoch'           -- minutes before it have become hours
) WITH (fillfactor = 10);
INSERT INTO webhook_rollup_progress DEFAULT VALUES;

GRANT SELECT, INSERT, DELETE ON webhook_rollups TO fencepost_worker;
GRANT UPDATE (received, attempts, ended, retries, delivered, first_delivered, failed, lease_expiries, dead, replayed,
              discarded, fenced, cells, counts) ON webhook_rollups TO fencepost_worker;
GRANT SELECT, UPDATE (upto, pending, begun_at, ran_at, as_of, folded_upto) ON webhook_rollup_progress
    TO fencepost_worker;
GRANT SELECT ON webhook_rollups, webhook_rollup_progress TO fencepost_dashboard;
