-- What a worker says of its last five minutes. NULL: it has not said, as one of an older release.

-- Lock: ACCESS EXCLUSIVE on a table of a few rows, for a catalog change.
ALTER TABLE webhook_workers
    ADD COLUMN attempts_per_minute double precision,
    ADD COLUMN p95_ms              double precision;    -- of the requests; NULL also when there was none

GRANT UPDATE (attempts_per_minute, p95_ms) ON webhook_workers TO fencepost_worker;
