-- The tables. Run once, on an empty schema: every lock here is on something new.
-- No foreign key touches the hot path (deliveries, trail, payloads): each costs 10 % and more of
-- the throughput and only re-checks what one guarded statement has already made true.

CREATE FUNCTION fencepost_now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';
COMMENT ON FUNCTION fencepost_now() IS
    'The only clock. STABLE so that it may be an index condition; statements take it once, in a CTE.';

-- UUIDv7 for PostgreSQL 15 and later: 48 bits of milliseconds, then random bits.
CREATE FUNCTION fencepost_uuid7(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$
    SELECT encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3)
                    FROM 1 FOR 6),
            52, 1), 53, 1),
        'hex')::uuid
    $$;

-- The smallest UUIDv7 of a moment: a border between two partitions of the trail.
CREATE FUNCTION fencepost_uuid7_floor(at timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT (encode(substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3), 'hex')
            || repeat('0', 20))::uuid
    $$;

CREATE TABLE webhook_subscriptions (
    id                    uuid PRIMARY KEY,
    name                  text NOT NULL CHECK (name <> ''),
    endpoint_sealed       bytea NOT NULL,           -- the whole URL: it can carry a token
    endpoint_origin       text NOT NULL,            -- scheme://host[:port]
    endpoint_masked       text NOT NULL,            -- origin and masked path: pages, trail, logs
    event_types           text[] NOT NULL DEFAULT '{*}',
    event_type_patterns   text[] NOT NULL DEFAULT '{%}',  -- the same globs as LIKE patterns
    signature_scheme      text NOT NULL DEFAULT 'standard'
                          CHECK (signature_scheme IN ('standard', 'stripe', 'prefixed')),
    signature_header      text,                     -- NULL: the scheme's own
    headers_sealed        bytea,                    -- a JSON object, name to value; NULL: none
    header_names          text[] NOT NULL DEFAULT '{}',
    max_attempts          integer NOT NULL DEFAULT 5 CHECK (max_attempts BETWEEN 1 AND 1000),
    backoff_base_seconds  double precision NOT NULL DEFAULT 15 CHECK (backoff_base_seconds > 0),
    backoff_cap_seconds   double precision NOT NULL DEFAULT 3600 CHECK (backoff_cap_seconds > 0),
    retry_preset          text CHECK (retry_preset IN ('standard-webhooks', 'three-days')),
    retry_statuses        integer[] NOT NULL DEFAULT '{}',     -- beside the default list
    no_retry_statuses     integer[] NOT NULL DEFAULT '{}',     -- taken out of it
    max_in_flight         integer CHECK (max_in_flight > 0),
    rate_limit_per_second double precision CHECK (rate_limit_per_second > 0),
    ordered               boolean NOT NULL DEFAULT false,
    state                 text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
    paused_reason         text,
    paused_at             timestamptz,
    resumed_at            timestamptz,              -- tells a wait for a pause from a wait for a worker
    config_version        integer NOT NULL DEFAULT 1,  -- raised by every change of what is sent
    removed_at            timestamptz,              -- its history stays readable
    created_at            timestamptz NOT NULL DEFAULT fencepost_now(),
    updated_at            timestamptz NOT NULL DEFAULT fencepost_now(),
    CONSTRAINT paused_says_why CHECK ((state = 'paused') = (paused_reason IS NOT NULL))
);

-- Several are valid at once while a rotation overlaps; the newest signs first.
CREATE TABLE webhook_signing_secrets (
    id              uuid PRIMARY KEY,
    subscription_id uuid NOT NULL REFERENCES webhook_subscriptions,
    sealed          bytea NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT fencepost_now(),
    expires_at      timestamptz                     -- NULL: current
);
-- Read with every batch of claims.
CREATE INDEX webhook_signing_secrets_of ON webhook_signing_secrets (subscription_id, created_at DESC);

-- A subscription is in here from its first failure until its next success.
CREATE TABLE webhook_failing_subscriptions (
    subscription_id uuid PRIMARY KEY REFERENCES webhook_subscriptions,
    since           timestamptz NOT NULL
);

CREATE TABLE webhook_events (
    id              uuid PRIMARY KEY,
    event_type      text NOT NULL
                    CONSTRAINT event_type_form CHECK (length(event_type) <= 128
                        AND event_type ~ '^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$'),
    content_type    text NOT NULL,
    payload_bytes   integer NOT NULL CHECK (payload_bytes >= 0),
    idempotency_key text,
    node            text NOT NULL,                  -- where it was taken in
    sealed_by       text CHECK (sealed_by IN ('producer', 'fan-out')),  -- NULL: still in clear
    only_subscription_id uuid,                      -- a test: meets this one, whatever it matches
    erased_at       timestamptz,
    created_at      timestamptz NOT NULL DEFAULT fencepost_now()
);

-- The few whose payload is gone: a replay's draft leaves them out without reading every event.
CREATE INDEX webhook_events_erased ON webhook_events (id) WHERE erased_at IS NOT NULL;

-- Apart from the hot rows. Ciphertext does not compress: EXTERNAL spares the attempt.
CREATE TABLE webhook_payloads (
    event_id uuid PRIMARY KEY,
    key_id   text NOT NULL,
    sealed   bytea NOT NULL
);
ALTER TABLE webhook_payloads ALTER COLUMN sealed SET STORAGE EXTERNAL;

CREATE TABLE webhook_outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   uuid NOT NULL UNIQUE,                -- "is it fanned out?" is "is it gone from here?"
    payload    bytea,                               -- only when it came in clear; gone at fan-out
    created_at timestamptz NOT NULL DEFAULT fencepost_now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE webhook_outbox ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE webhook_idempotency_keys (
    key      text PRIMARY KEY,
    event_id uuid NOT NULL,
    mac      bytea                                  -- of type, content type and payload, keyed; NULL from the SQL door
);

CREATE TABLE webhook_deliveries (
    id               uuid PRIMARY KEY,
    event_id         uuid NOT NULL,
    subscription_id  uuid NOT NULL,
    event_type       text NOT NULL,                 -- the event's, so that lists need no join
    current_state    text NOT NULL,
    seq              integer NOT NULL,              -- of its newest trail row
    attempt_count    integer NOT NULL DEFAULT 0,
    max_attempts     integer NOT NULL DEFAULT 5,
    budget_start     integer NOT NULL DEFAULT 0,    -- attempts used = attempt_count - budget_start
    first_attempt_at timestamptz,                   -- of this budget
    next_attempt_at  timestamptz,
    lane             smallint NOT NULL DEFAULT 0,   -- 0 live, 1 replay, 2 suspect
    worker_id        text,
    lease_expires_at timestamptz,
    fencing_token    bigint NOT NULL DEFAULT 0,
    expiries         integer NOT NULL DEFAULT 0,    -- in a row, without an outcome
    last_status      integer,
    last_error       text,                          -- an error class
    dead_reason      text,
    dead_at          timestamptz,
    discarded_at     timestamptz,
    replay_id        uuid,                          -- the newest bulk replay that touched it
    moved_in         xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- is this move part of a draft's snapshot?
    created_at       timestamptz NOT NULL DEFAULT fencepost_now(),
    updated_at       timestamptz NOT NULL DEFAULT fencepost_now(),
    CONSTRAINT lane_known CHECK (lane IN (0, 1, 2)),
    CONSTRAINT budget_in_count CHECK (budget_start BETWEEN 0 AND attempt_count),
    CONSTRAINT discarded_is_dead CHECK (discarded_at IS NULL OR dead_at IS NOT NULL)
    -- the constraints and triggers on current_state are generated: see fencepost/store/guards.py
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- One event meets a subscription once; and the deliveries of an event, for its page.
CREATE UNIQUE INDEX webhook_deliveries_of_event ON webhook_deliveries (event_id, subscription_id);
-- The list of one subscription, newest first. Ids are time-ordered, so the primary key is the list of all.
CREATE INDEX webhook_deliveries_of_subscription ON webhook_deliveries (subscription_id, id);
-- Everything a bulk replay touched.
CREATE INDEX webhook_deliveries_of_replay ON webhook_deliveries (replay_id, id) WHERE replay_id IS NOT NULL;
-- The claim: a skip scan over subscriptions and lanes, the due ones of each in order.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (subscription_id, lane, next_attempt_at)
    WHERE current_state IN ('ENCRYPTED', 'RETRIED');
-- The reaper and the workers page. Not on lease_expires_at: heartbeats stay heap-only updates.
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (id)
    WHERE current_state IN ('LEASED', 'ATTEMPTED');
-- The dead letter queue by the moment of entry, of all and of one subscription.
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (dead_at, id)
    WHERE current_state = 'DLQ';
CREATE INDEX webhook_deliveries_dead_of ON webhook_deliveries (subscription_id, dead_at, id)
    WHERE current_state = 'DLQ';

-- The trail. Partitioned by delivery id (time-ordered), so that one history lies in one partition,
-- (delivery_id, seq) is unique, and retention drops whole histories.
CREATE TABLE webhook_delivery_attempts (
    delivery_id      uuid NOT NULL,
    seq              integer NOT NULL CHECK (seq >= 1),
    state            text NOT NULL,
    worker_id        text,                          -- as presented by the writer
    fencing_token    bigint,                        -- as presented by the writer
    http_status_code integer,
    latency_ms       integer,
    error_message    text,
    detail           jsonb,
    created_at       timestamptz NOT NULL DEFAULT fencepost_now(),
    PRIMARY KEY (delivery_id, seq)
) PARTITION BY RANGE (delivery_id);
-- The live hub and the rollup read what is new.
CREATE INDEX webhook_delivery_attempts_new ON webhook_delivery_attempts USING brin (created_at) WITH (autosummarize = on);

-- What receivers answered, sealed: failures by default.
CREATE TABLE webhook_responses (
    delivery_id uuid NOT NULL,
    attempt     integer NOT NULL,                   -- attempt_count of that request
    sealed      bytea NOT NULL,                     -- JSON: status, headers, body (base64), truncated
    created_at  timestamptz NOT NULL DEFAULT fencepost_now(),
    PRIMARY KEY (delivery_id, attempt)
);

-- The late writes that fencing refused: never part of the trail.
CREATE TABLE webhook_fenced_writes (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id   uuid NOT NULL,
    worker_id     text NOT NULL,
    fencing_token bigint NOT NULL,                  -- the stale one
    would_write   text NOT NULL,                    -- a state, or 'heartbeat'
    detail        jsonb,
    noted_at      timestamptz NOT NULL DEFAULT fencepost_now(),
    CONSTRAINT webhook_fenced_writes_once UNIQUE (delivery_id, worker_id, fencing_token)
);

CREATE TABLE webhook_workers (
    worker_id   text PRIMARY KEY,                   -- configured name and a random suffix: one process start
    node        text NOT NULL,
    version     text NOT NULL,
    transport   text NOT NULL,
    concurrency integer NOT NULL,
    in_flight   integer NOT NULL DEFAULT 0,
    state       text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'draining', 'stopped')),
    started_at  timestamptz NOT NULL DEFAULT fencepost_now(),
    beat_at     timestamptz NOT NULL DEFAULT fencepost_now()
);

CREATE TABLE webhook_replays (
    id              uuid PRIMARY KEY,
    state           text NOT NULL DEFAULT 'DRAFT'
                    CHECK (state IN ('DRAFT', 'RUNNING', 'PAUSED', 'CANCELLED', 'DONE', 'FAILED')),
    filter          jsonb NOT NULL,                 -- the list's parameters; the scope is never read from a form again
    snapshot        pg_snapshot NOT NULL,           -- what had moved by then is in it, later arrivals are not
    reason          text,
    rate_per_second double precision CHECK (rate_per_second > 0),
    matched         bigint NOT NULL,
    eligible        bigint NOT NULL,
    requeued        bigint NOT NULL DEFAULT 0,
    skipped         bigint NOT NULL DEFAULT 0,
    last_id         uuid,                           -- keyset position of the run
    failure         text,
    created_by      text NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT fencepost_now(),
    expires_at      timestamptz NOT NULL,           -- of the draft
    started_by      text,
    started_at      timestamptz,
    next_batch_at   timestamptz,                    -- keeps the pace, whichever worker makes the batch
    finished_at     timestamptz
);
CREATE INDEX webhook_replays_running ON webhook_replays (id) WHERE state = 'RUNNING';

CREATE TABLE webhook_users (
    id            uuid PRIMARY KEY,
    name          text NOT NULL,
    name_key      text NOT NULL UNIQUE,             -- NFKC, case folded
    password_hash text NOT NULL,                    -- argon2id
    role          text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    disabled_at   timestamptz,
    created_at    timestamptz NOT NULL DEFAULT fencepost_now()
);

CREATE TABLE webhook_sessions (
    token_hash   bytea PRIMARY KEY,                 -- sha256 of a 256-bit random id
    user_id      uuid NOT NULL REFERENCES webhook_users ON DELETE CASCADE,
    created_at   timestamptz NOT NULL DEFAULT fencepost_now(),
    last_seen_at timestamptz NOT NULL DEFAULT fencepost_now()
);

-- A link that `up` and `demo` print: good for one login.
CREATE TABLE webhook_login_links (
    token_hash bytea PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES webhook_users ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);

CREATE TABLE webhook_api_tokens (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    secret_hash  bytea NOT NULL UNIQUE,             -- sha256 of the random part
    role         text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at   timestamptz NOT NULL DEFAULT fencepost_now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);

-- Failed logins of an account name or an address, for the throttle.
CREATE TABLE webhook_login_failures (
    subject  text PRIMARY KEY,
    failures integer NOT NULL,
    last_at  timestamptz NOT NULL
);

-- What people and tokens did: in the same transaction as the change, refused ones included.
CREATE TABLE webhook_operator_actions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor      text NOT NULL,
    action     text NOT NULL,                       -- e.g. delivery.replay
    target     text NOT NULL,
    params     jsonb,
    affected   bigint,
    outcome    text NOT NULL CHECK (outcome IN ('done', 'denied', 'refused')),
    request_id text,
    created_at timestamptz NOT NULL DEFAULT fencepost_now()
);
CREATE INDEX webhook_operator_actions_on ON webhook_operator_actions (target, id);
