-- What a receiver runs in its own database, in the transaction of the effect.

-- name: ddl
CREATE TABLE IF NOT EXISTS webhook_inbox (
    endpoint      text        NOT NULL,
    webhook_id    text        NOT NULL,
    delivery_id   text,
    fencing_token bigint,
    requests      bigint      NOT NULL DEFAULT 1,
    first_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (endpoint, webhook_id)
);
-- Serves purge.
CREATE INDEX IF NOT EXISTS webhook_inbox_last_at ON webhook_inbox (last_at);

-- name: record_request
INSERT INTO webhook_inbox AS inbox (endpoint, webhook_id, delivery_id, fencing_token)
VALUES (%(endpoint)s, %(webhook_id)s, %(delivery_id)s, %(fencing_token)s)
    -- Waits for a transaction that has inserted the same id: to its commit, or to its rollback, after
    -- which this one inserts.
    ON CONFLICT (endpoint, webhook_id) DO UPDATE
   SET requests = inbox.requests + 1,
       last_at = clock_timestamp(),
       -- Another delivery's tokens are numbers of their own.
       fencing_token = CASE WHEN inbox.delivery_id = EXCLUDED.delivery_id
                            THEN greatest(inbox.fencing_token, EXCLUDED.fencing_token)
                            ELSE inbox.fencing_token END
RETURNING requests = 1 AS is_first,
          coalesce(delivery_id = %(delivery_id)s AND fencing_token > %(fencing_token)s, false) AS is_stale;

-- name: purge
WITH old AS MATERIALIZED (
    SELECT endpoint, webhook_id
      FROM webhook_inbox
     WHERE last_at < clock_timestamp() - %(older_than)s
     ORDER BY last_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED),   -- a request is at that very row: it is not old
gone AS (
    DELETE FROM webhook_inbox USING old
     WHERE webhook_inbox.endpoint = old.endpoint AND webhook_inbox.webhook_id = old.webhook_id
    RETURNING 1)
SELECT count(*) FROM gone;
