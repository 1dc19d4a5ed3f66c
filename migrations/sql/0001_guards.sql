-- The functions behind the guards; the guards themselves are generated: fencepost/store/guards.py.

CREATE FUNCTION webhook_refuse_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE EXCEPTION 'a delivery cannot begin as % (seq %, attempt_count %, fencing_token %)',
            NEW.current_state, NEW.seq, NEW.attempt_count, NEW.fencing_token
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'delivery % is %: only a finished one may be deleted', OLD.id, OLD.current_state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RAISE EXCEPTION 'illegal move of delivery %: % -> %, seq % -> %, fencing_token % -> %, attempt_count % -> %, worker_id % -> %',
        OLD.id, OLD.current_state, NEW.current_state, OLD.seq, NEW.seq, OLD.fencing_token, NEW.fencing_token,
        OLD.attempt_count, NEW.attempt_count, coalesce(OLD.worker_id, '-'), coalesce(NEW.worker_id, '-')
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
END $$;

CREATE FUNCTION webhook_refuse_change() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the trail is append-only: % of % is refused', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege', TABLE = TG_TABLE_NAME;
END $$;

-- Row triggers are cloned to every partition; TRUNCATE triggers are not, so each partition is born with its own.
-- ALWAYS: session_replication_role = replica does not switch them off.
CREATE TRIGGER webhook_trail_append_only BEFORE UPDATE OR DELETE ON webhook_delivery_attempts
    FOR EACH ROW EXECUTE FUNCTION webhook_refuse_change();
ALTER TABLE webhook_delivery_attempts ENABLE ALWAYS TRIGGER webhook_trail_append_only;
CREATE TRIGGER webhook_trail_no_truncate BEFORE TRUNCATE ON webhook_delivery_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION webhook_refuse_change();
ALTER TABLE webhook_delivery_attempts ENABLE ALWAYS TRIGGER webhook_trail_no_truncate;
