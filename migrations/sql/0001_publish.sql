-- The doors for producers.
SELECT 1;
