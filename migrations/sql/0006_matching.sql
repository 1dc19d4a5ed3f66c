-- Whom an event meets is found by index: most subscriptions name whole event types, and few have a wildcard.
-- Lock: SHARE on subscriptions, which have few rows, for each index.

CREATE FUNCTION fencepost_has_wildcard(patterns text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT EXISTS (SELECT FROM unnest(patterns) AS p(pattern) WHERE strpos(p.pattern, '%') > 0) $$;

CREATE INDEX webhook_subscriptions_exact ON webhook_subscriptions USING gin (event_type_patterns) WITH (fastupdate = off)
    WHERE removed_at IS NULL;
CREATE INDEX webhook_subscriptions_wild ON webhook_subscriptions (id)
    WHERE removed_at IS NULL AND fencepost_has_wildcard(event_type_patterns);
