-- Failures in the order of time, with what was answered beside it: a list of those with one status, however few they
-- are, reads an index of the failures and not the table of everything. What is delivered is in none of these, so
-- that a delivery which never failed pays nothing; one that did writes them anew with each claim and each outcome.

-- Lock: SHARE on deliveries while the table is read, once for each.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (id, last_status, last_error)
    WHERE last_error IS NOT NULL;
CREATE INDEX webhook_deliveries_failed_of ON webhook_deliveries (subscription_id, id, last_status, last_error)
    WHERE last_error IS NOT NULL;

-- The dead letters likewise, by the moment of entry. These take the place of those of the release before, which finds
-- in them whatever it found.
CREATE INDEX webhook_deliveries_dead_wide ON webhook_deliveries (dead_at, id, last_status, last_error)
    WHERE dead_at IS NOT NULL;
CREATE INDEX webhook_deliveries_dead_of_wide ON webhook_deliveries (subscription_id, dead_at, id, last_status, last_error)
    WHERE dead_at IS NOT NULL;
-- Lock: ACCESS EXCLUSIVE for catalog changes.
DROP INDEX webhook_deliveries_dead, webhook_deliveries_dead_of;
ALTER INDEX webhook_deliveries_dead_wide RENAME TO webhook_deliveries_dead;
ALTER INDEX webhook_deliveries_dead_of_wide RENAME TO webhook_deliveries_dead_of;
