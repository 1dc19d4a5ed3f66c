-- Working through the dead letters: what they died of, and giving many up at once.

-- Everything of one cause in the order of entry, and how many share it, without the table. 0 stands for "no answer
-- came", '' for an error that is not known; both columns are beside the key, so that counting needs nothing else.
-- Lock: SHARE on deliveries while the table is read once.
CREATE INDEX webhook_deliveries_dead_of_group ON webhook_deliveries
    (subscription_id, (coalesce(last_error, '')), (coalesce(last_status, 0)), dead_at, id)
    INCLUDE (last_error, last_status)
    WHERE dead_at IS NOT NULL AND discarded_at IS NULL;

-- How many dead letters share a cause, counted by a worker every so often: a page reads these, and not millions.
CREATE TABLE webhook_dead_groups (
    subscription_id uuid NOT NULL,
    error           text NOT NULL,
    status          integer NOT NULL,
    count           bigint NOT NULL CHECK (count > 0),
    PRIMARY KEY (subscription_id, error, status)
);
CREATE TABLE webhook_dead_groups_counted (
    is_only_row boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    as_of       timestamptz NOT NULL DEFAULT 'epoch',
    due_at      timestamptz NOT NULL DEFAULT 'epoch'   -- the longer a count takes, the later the next
) WITH (fillfactor = 10);
INSERT INTO webhook_dead_groups_counted DEFAULT VALUES;

-- A table of its own and not a kind of replay: a worker of the release before would send these again.
CREATE TABLE webhook_discards (
    id          uuid PRIMARY KEY,
    state       text NOT NULL DEFAULT 'DRAFT'
                CHECK (state IN ('DRAFT', 'RUNNING', 'CANCELLED', 'DONE', 'FAILED')),
    filter      jsonb NOT NULL,                        -- the list's parameters; the scope is never read from a form again
    snapshot    pg_snapshot NOT NULL,                  -- what had moved by then is in it, later arrivals are not
    reason      text,
    matched     bigint NOT NULL,
    eligible    bigint NOT NULL,
    discarded   bigint NOT NULL DEFAULT 0,
    skipped     bigint NOT NULL DEFAULT 0,
    last_id     uuid,                                  -- keyset position of the run
    failure     text,
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT fencepost_now(),
    expires_at  timestamptz NOT NULL,                  -- of the draft
    started_by  text,
    started_at  timestamptz,
    finished_at timestamptz,
    CONSTRAINT a_started_discard_says_why CHECK (started_at IS NULL OR reason IS NOT NULL)
);
CREATE INDEX webhook_discards_running ON webhook_discards (id) WHERE state = 'RUNNING';

GRANT SELECT, INSERT, DELETE, UPDATE (count) ON webhook_dead_groups TO fencepost_worker;
GRANT SELECT, UPDATE (as_of, due_at) ON webhook_dead_groups_counted TO fencepost_worker;
GRANT SELECT, UPDATE (state, discarded, skipped, last_id, failure, finished_at) ON webhook_discards TO fencepost_worker;
GRANT SELECT ON webhook_dead_groups, webhook_dead_groups_counted TO fencepost_dashboard;
GRANT SELECT, INSERT, UPDATE ON webhook_discards TO fencepost_dashboard;
