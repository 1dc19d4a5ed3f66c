-- Partitions of the trail: one for each day (UTC) in which its deliveries were made.

-- Attach the partitions from yesterday until days_ahead from now; give how many were new.
-- ATTACH takes SHARE UPDATE EXCLUSIVE on the trail: writers go on. Workers call it; the owner owns what it makes.
CREATE FUNCTION webhook_ensure_partitions(days_ahead integer DEFAULT 3) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
DECLARE
    first_day CONSTANT date := (fencepost_now() AT TIME ZONE 'UTC')::date - 1;
    made integer := 0;
    part text;
    born date;
BEGIN
    IF days_ahead NOT BETWEEN 0 AND 366 THEN
        RAISE EXCEPTION 'days_ahead must be between 0 and 366' USING ERRCODE = '22023';
    END IF;
    FOR born IN SELECT first_day + n FROM generate_series(0, days_ahead + 1) AS n LOOP
        part := 'webhook_delivery_attempts_' || to_char(born, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        -- Two workers at midnight: the second waits, then finds it there.
        PERFORM pg_advisory_xact_lock(hashtextextended('webhook_ensure_partitions', 0));
        CONTINUE WHEN to_regclass(part) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE webhook_delivery_attempts INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE format('CREATE TRIGGER webhook_trail_no_truncate BEFORE TRUNCATE ON %I
                        FOR EACH STATEMENT EXECUTE FUNCTION webhook_refuse_change()', part);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER webhook_trail_no_truncate', part);
        EXECUTE format('ALTER TABLE webhook_delivery_attempts ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       part,
                       fencepost_uuid7_floor(born::timestamp AT TIME ZONE 'UTC'),
                       fencepost_uuid7_floor((born + 1)::timestamp AT TIME ZONE 'UTC'));
        -- Cloned triggers keep the parent's ALWAYS on some versions only: say it again.
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER webhook_trail_append_only', part);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
