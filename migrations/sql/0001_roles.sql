-- What each of the roles may do. The login users of the programs are made members of them.
-- Every table is named: the schema may be one in which the producers have tables of their own.

REVOKE ALL ON FUNCTION webhook_ensure_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION webhook_ensure_partitions(integer) TO fencepost_worker;

-- The worker moves deliveries and adds to the trail; it takes nothing out of either.
GRANT SELECT ON webhook_subscriptions, webhook_signing_secrets, webhook_failing_subscriptions, webhook_events,
    webhook_payloads, webhook_outbox, webhook_idempotency_keys, webhook_deliveries, webhook_delivery_attempts,
    webhook_fenced_writes, webhook_workers, webhook_replays, webhook_operator_actions, fencepost_schema_version
    TO fencepost_worker;
GRANT INSERT ON webhook_deliveries, webhook_delivery_attempts, webhook_payloads, webhook_responses,
    webhook_fenced_writes, webhook_workers, webhook_failing_subscriptions, webhook_operator_actions
    TO fencepost_worker;
GRANT UPDATE (current_state, seq, attempt_count, max_attempts, budget_start, first_attempt_at, next_attempt_at, lane,
              worker_id, lease_expires_at, fencing_token, expiries, last_status, last_error, dead_reason, dead_at,
              discarded_at, replay_id, moved_in, updated_at)
    ON webhook_deliveries TO fencepost_worker;
GRANT UPDATE (in_flight, state, beat_at) ON webhook_workers TO fencepost_worker;
GRANT UPDATE (state, requeued, skipped, last_id, failure, next_batch_at, finished_at)
    ON webhook_replays TO fencepost_worker;
GRANT UPDATE (sealed_by) ON webhook_events TO fencepost_worker;
GRANT UPDATE (mac) ON webhook_idempotency_keys TO fencepost_worker;
GRANT UPDATE (state, paused_reason, paused_at, updated_at) ON webhook_subscriptions TO fencepost_worker;
GRANT DELETE ON webhook_outbox, webhook_workers, webhook_failing_subscriptions TO fencepost_worker;
-- FOR UPDATE SKIP LOCKED asks for the right to update something.
GRANT UPDATE (payload) ON webhook_outbox TO fencepost_worker;
GRANT UPDATE (since) ON webhook_failing_subscriptions TO fencepost_worker;

-- The dashboard and the command line act for people: they replay, discard, configure.
GRANT SELECT ON webhook_subscriptions, webhook_signing_secrets, webhook_failing_subscriptions, webhook_events,
    webhook_payloads, webhook_outbox, webhook_idempotency_keys, webhook_deliveries, webhook_delivery_attempts,
    webhook_responses, webhook_fenced_writes, webhook_workers, webhook_replays, webhook_users, webhook_sessions,
    webhook_login_links, webhook_api_tokens, webhook_login_failures, webhook_operator_actions,
    webhook_publish_settings, fencepost_schema_version
    TO fencepost_dashboard;
GRANT INSERT ON webhook_delivery_attempts, webhook_operator_actions TO fencepost_dashboard;
GRANT UPDATE (current_state, seq, max_attempts, budget_start, first_attempt_at, next_attempt_at, lane,
              expiries, dead_reason, dead_at, discarded_at, replay_id, moved_in, updated_at)
    ON webhook_deliveries TO fencepost_dashboard;
GRANT INSERT, UPDATE ON webhook_subscriptions, webhook_replays, webhook_users TO fencepost_dashboard;
GRANT INSERT, UPDATE, DELETE ON webhook_signing_secrets, webhook_sessions, webhook_login_links,
    webhook_api_tokens, webhook_login_failures TO fencepost_dashboard;
GRANT DELETE ON webhook_failing_subscriptions TO fencepost_dashboard;
