-- The doors for producers: they may call these functions and touch nothing else. Each runs as the
-- owner, with the search_path of the migration (the schema, then pg_temp), whatever the caller's is.

-- What the database itself must know of the settings: `fencepost migrate` writes it.
CREATE TABLE webhook_publish_settings (
    is_only_row       boolean PRIMARY KEY DEFAULT true CHECK (is_only_row),
    require_sealed    boolean NOT NULL DEFAULT false,
    max_payload_bytes integer NOT NULL DEFAULT 262144 CHECK (max_payload_bytes > 0)
);
INSERT INTO webhook_publish_settings DEFAULT VALUES;

-- Takes events in, all of them or none: what every door does. Array elements at one place belong
-- to one event; "clear" or "key_ids" and "sealed" hold its payload. What a door has no use for it
-- leaves '{}', which reads as NULL everywhere.
CREATE FUNCTION fencepost_take_in(
    event_ids uuid[], event_types text[], content_types text[], idempotency_keys text[],
    payload_bytes integer[], clear bytea[], key_ids text[], sealed bytea[], macs bytea[],
    at_node text, only_for uuid DEFAULT NULL)
RETURNS TABLE (place bigint, event_id uuid, is_duplicate boolean, is_alike boolean, first_mac bytea)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
#variable_conflict use_column
DECLARE
    keyed integer;
    wanted integer;
    owned integer := 0;
    seen integer;
    fault record;
    moment timestamptz := fencepost_now();
    most_bytes integer;
    -- RFC 9110 section 8.3.1: it becomes a header, so nothing else may pass. (No backslash in any
    -- pattern here: a caller's standard_conforming_strings would decide what it means.)
    media_type CONSTANT text := '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+'
        '( *; *[A-Za-z0-9!#$&^_.+-]+=([A-Za-z0-9!#$&^_.+-]+|"[] !#-[^-~]*"))*$';
BEGIN
    SELECT s.max_payload_bytes INTO STRICT most_bytes FROM webhook_publish_settings s;
    -- What cannot be taken in, and why. Values are never quoted: messages end up in logs.
    SELECT i.place, f.message INTO fault
      FROM unnest(event_ids, event_types, content_types, idempotency_keys, payload_bytes, clear, key_ids, sealed)
           WITH ORDINALITY AS i(event_id, event_type, content_type, key, bytes, clear, key_id, sealed, place),
           LATERAL (SELECT CASE
               WHEN i.event_id IS NULL THEN 'event_id must not be null'
               WHEN i.event_type IS NULL THEN 'event_type must not be null'
               WHEN length(i.event_type) > 128 OR i.event_type !~ '^[A-Za-z0-9_]+([.][A-Za-z0-9_]+)*$' THEN
                   'event_type must be words of letters, digits and _ with dots between, at most 128 characters'
               WHEN i.event_type LIKE 'fencepost.%' AND only_for IS NULL THEN
                   'event_type must not begin with fencepost., which is for our own events'
               WHEN i.content_type IS NULL THEN 'content_type must not be null'
               WHEN length(i.content_type) > 255 OR i.content_type !~ media_type THEN
                   'content_type must be a media type such as application/json, at most 255 characters'
               WHEN i.key !~ '^[!-~]{1,255}$' THEN
                   'idempotency_key must be 1 to 255 visible ASCII characters, without spaces'
               WHEN i.bytes IS NULL THEN 'payload must not be null'
               WHEN i.bytes NOT BETWEEN 0 AND most_bytes THEN
                   'payload has ' || i.bytes::text || ' bytes, the limit is ' || most_bytes::text
               WHEN i.clear IS NULL AND (i.key_id IS NULL OR i.sealed IS NULL) THEN
                   'key_id and sealed must not be null'
               WHEN i.key_id !~ '^[A-Za-z0-9_-]{1,32}$' THEN 'key_id must be 1 to 32 letters, digits, _ and -'
               -- Sealing adds little: what is stored is about as long as was claimed.
               WHEN octet_length(i.sealed) NOT BETWEEN i.bytes AND i.bytes + 1024 THEN
                   'sealed must be as long as the payload and what sealing adds to it'
           END) AS f(message)
     WHERE f.message IS NOT NULL
     ORDER BY i.place
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = fault.message
            || CASE WHEN cardinality(event_ids) > 1 THEN format(' (event %s)', fault.place) ELSE '' END;
    END IF;
    IF at_node IS NULL OR at_node !~ '^[ -~]{1,128}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'node must be 1 to 128 printable ASCII characters';
    END IF;

    -- Whoever inserts a key first owns it; the others wait here for that transaction and then see
    -- its event. A key that vanished meanwhile (rolled back, or its event was removed) is tried again.
    SELECT count(i.key), count(DISTINCT i.key) INTO keyed, wanted FROM unnest(idempotency_keys) AS i(key);
    WHILE wanted > 0 LOOP
        INSERT INTO webhook_idempotency_keys (key, event_id, mac)
        SELECT DISTINCT ON (i.key) i.key, i.event_id, i.mac
          FROM unnest(idempotency_keys, event_ids, macs) WITH ORDINALITY AS i(key, event_id, mac, place)
         WHERE i.key IS NOT NULL
         ORDER BY i.key, i.place   -- one order for all batches: two of them never deadlock
            ON CONFLICT ON CONSTRAINT webhook_idempotency_keys_pkey DO NOTHING;
        GET DIAGNOSTICS owned = ROW_COUNT;
        EXIT WHEN owned = keyed;   -- all are new: nothing below need look at them
        PERFORM FROM webhook_idempotency_keys k
          WHERE k.key = ANY (idempotency_keys)
          ORDER BY k.key
            FOR KEY SHARE;         -- until we commit, nobody removes what we are about to answer with
        GET DIAGNOSTICS seen = ROW_COUNT;
        EXIT WHEN seen = wanted;
    END LOOP;

    WITH
    ours AS MATERIALIZED (
        SELECT i.*
          FROM unnest(event_ids, event_types, content_types, idempotency_keys, payload_bytes, clear, key_ids, sealed)
               WITH ORDINALITY AS i(event_id, event_type, content_type, key, bytes, clear, key_id, sealed, place)
         WHERE owned = keyed OR i.key IS NULL
            OR EXISTS (SELECT FROM webhook_idempotency_keys k WHERE k.key = i.key AND k.event_id = i.event_id)
    ),
    events AS (
        INSERT INTO webhook_events
               (id, event_type, content_type, payload_bytes, idempotency_key, node, sealed_by, only_subscription_id, created_at)
        SELECT o.event_id, o.event_type, o.content_type, o.bytes, o.key, at_node,
               CASE WHEN o.key_id IS NOT NULL THEN 'producer' END, only_for, moment
          FROM ours o
    ),
    payloads AS (
        INSERT INTO webhook_payloads (event_id, key_id, sealed)
        SELECT o.event_id, o.key_id, o.sealed FROM ours o WHERE o.key_id IS NOT NULL
    )
    INSERT INTO webhook_outbox (event_id, payload, created_at)
    SELECT o.event_id, o.clear, moment FROM ours o ORDER BY o.place;

    IF owned = keyed THEN
        RETURN QUERY
        SELECT i.place, i.event_id, false, true, NULL::bytea
          FROM unnest(event_ids) WITH ORDINALITY AS i(event_id, place);
    ELSE
        RETURN QUERY
        SELECT i.place, coalesce(k.event_id, i.event_id), coalesce(k.event_id <> i.event_id, false),
               coalesce(e.event_type = i.event_type AND e.content_type = i.content_type
                        AND e.payload_bytes = i.bytes, i.key IS NULL),
               k.mac
          FROM unnest(event_ids, event_types, content_types, idempotency_keys, payload_bytes)
               WITH ORDINALITY AS i(event_id, event_type, content_type, key, bytes, place)
          LEFT JOIN webhook_idempotency_keys k ON k.key = i.key
          LEFT JOIN webhook_events e ON e.id = k.event_id
         ORDER BY i.place;
    END IF;
END
$$;

-- The door for every language: SELECT webhook_publish('invoice.paid', convert_to(document, 'UTF8')).
-- (Not document::bytea, which changes bytes at backslashes.) Call it in the transaction that makes
-- the event true. It does not read the payload, so JSON is not checked here.
-- Under REPEATABLE READ and SERIALIZABLE, racing for one idempotency key ends in 40001 as usual.
CREATE FUNCTION webhook_publish(
    event_type text, payload bytea, content_type text DEFAULT 'application/json',
    idempotency_key text DEFAULT NULL)
RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
DECLARE
    taken record;
BEGIN
    IF (SELECT s.require_sealed FROM webhook_publish_settings s) THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege',
            MESSAGE = 'only sealed payloads are accepted here (FENCEPOST_REQUIRE_SEALED)',
            HINT = 'Publish with fencepost.publish() or POST /api/v1/events, which seal first.';
    END IF;
    SELECT t.event_id, t.is_alike INTO taken
      FROM fencepost_take_in(
               ARRAY[fencepost_uuid7(fencepost_now())], ARRAY[event_type], ARRAY[content_type],
               ARRAY[idempotency_key], ARRAY[octet_length(payload)], ARRAY[payload],
               '{}', '{}', '{}',
               coalesce(nullif(current_setting('application_name'), ''), 'sql')
               || '@' || coalesce(host(inet_client_addr()), 'local')) AS t;
    IF NOT taken.is_alike THEN
        RAISE EXCEPTION USING ERRCODE = 'unique_violation',
            MESSAGE = 'idempotency_key was used before, with another event type, content type or payload',
            CONSTRAINT = 'webhook_idempotency_keys_pkey';
    END IF;
    RETURN taken.event_id;
END
$$;
COMMENT ON FUNCTION webhook_publish IS
    'Publish an event in this transaction: commit and it exists, roll back and it never did.';

-- The door of fencepost.publish(): the payload arrives sealed, and the mac tells equal payloads.
-- A known key is answered and not refused, so that the caller's transaction survives: is_alike says
-- whether type, content type and length are the first event's, first_mac lets its keyring say more.
CREATE FUNCTION webhook_publish_sealed(
    event_id uuid, event_type text, content_type text, idempotency_key text,
    payload_bytes integer, key_id text, sealed bytea, mac bytea, node text)
RETURNS TABLE (first_event_id uuid, is_duplicate boolean, is_alike boolean, first_mac bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
BEGIN
    RETURN QUERY
    SELECT t.event_id, t.is_duplicate, t.is_alike, t.first_mac
      FROM fencepost_take_in(
               ARRAY[event_id], ARRAY[event_type], ARRAY[content_type], ARRAY[idempotency_key],
               ARRAY[payload_bytes], '{}', ARRAY[key_id], ARRAY[sealed], ARRAY[mac], node) AS t;
END
$$;

-- The same for many events at once, all or nothing, answered in their order.
CREATE FUNCTION webhook_publish_sealed_many(
    event_ids uuid[], event_types text[], content_types text[], idempotency_keys text[],
    payload_bytes integer[], key_ids text[], sealed bytea[], macs bytea[], node text)
RETURNS TABLE (first_event_id uuid, is_duplicate boolean, is_alike boolean, first_mac bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
BEGIN
    RETURN QUERY
    SELECT t.event_id, t.is_duplicate, t.is_alike, t.first_mac
      FROM fencepost_take_in(
               event_ids, event_types, content_types, idempotency_keys, payload_bytes,
               '{}', key_ids, sealed, macs, node) AS t
     ORDER BY t.place;
END
$$;

-- A test that one subscription alone receives, whatever it listens to. Not for producers.
CREATE FUNCTION webhook_publish_test(
    event_id uuid, event_type text, content_type text, payload_bytes integer, key_id text,
    sealed bytea, node text, subscription_id uuid)
RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
BEGIN
    IF subscription_id IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
            MESSAGE = 'subscription_id must not be null';
    END IF;
    RETURN (SELECT t.event_id
              FROM fencepost_take_in(
                       ARRAY[event_id], ARRAY[event_type], ARRAY[content_type], '{}',
                       ARRAY[payload_bytes], '{}', ARRAY[key_id], ARRAY[sealed], '{}', node,
                       subscription_id) AS t);
END
$$;

-- A new function is everybody's until it is taken away.
REVOKE ALL ON FUNCTION
    fencepost_take_in, webhook_publish, webhook_publish_sealed,
    webhook_publish_sealed_many, webhook_publish_test
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION webhook_publish, webhook_publish_sealed, webhook_publish_sealed_many
    TO fencepost_producer, fencepost_dashboard;
GRANT EXECUTE ON FUNCTION webhook_publish_test TO fencepost_dashboard;
