-- What the last minutes hold is found by their time, whoever it happened to. Counting a minute on changes no column
-- that is in here; a minute is entered once, and leaves when it becomes part of its hour.
-- Lock: SHARE on the rollups while they are read once: their one writer waits.
CREATE INDEX webhook_rollups_minutes ON webhook_rollups (starts_at) WHERE minutes = 1;
