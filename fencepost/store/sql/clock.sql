-- The only clock.

-- name: read_clock
SELECT fencepost_now();
