-- The doorbell without a gap. Why no commit is missed: worker/doze.py.

-- Until when a worker sleeps and listens, in seconds since the epoch. A sequence, because reading and setting it is
-- outside of all transactions: a producer whose snapshot is old sees it as it is. Unlogged: falling asleep and waking
-- up wait for no disk, and after a crash of the server nobody sleeps.
CREATE UNLOGGED SEQUENCE webhook_asleep_until MINVALUE 0 START 0;
GRANT SELECT, UPDATE ON SEQUENCE webhook_asleep_until TO fencepost_worker;

-- Named by the table's number: a channel's name has 63 bytes, which a schema's name can use up alone.
CREATE OR REPLACE FUNCTION webhook_ring() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
BEGIN
    IF (SELECT s.last_value FROM webhook_asleep_until s) > extract(epoch FROM fencepost_now()) THEN
        PERFORM pg_notify('webhook_outbox_' || TG_RELID, '');
    END IF;
    RETURN NULL;
END $$;

DROP TABLE webhook_doorbell;
