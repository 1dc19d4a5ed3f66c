-- Taking leases, keeping them, using them, and taking back those that ran out.
-- Every statement after the claim presents id, worker_id and fencing_token: the guard.
-- Rows are locked by one primary-key probe each, in id order, so that batches never deadlock
-- and stale statistics cannot change the plan (the lateral lock is never pulled up; the worker is
-- hidden in a coalesce, which does not imply the condition of the index of what is held).
-- No index mentions the state: what waits is due and in nobody's hands, what is held has a worker.

-- name: claim_due
-- A skip scan visits the subscriptions that have something waiting, from a rotating cursor on, and takes
-- a share of each: nobody's backlog delays another's. Each visit sees the first that waits, of the lowest lane;
-- the other lanes are looked into only where the last that waits is of a higher one.
WITH RECURSIVE
t AS MATERIALIZED (SELECT fencepost_now() AS now),
visited AS (
    (SELECT d.subscription_id, d.lane, d.next_attempt_at AS due_at, 1 AS n
       FROM webhook_deliveries d
      WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id > %(cursor)s
      ORDER BY d.subscription_id, d.lane, d.next_attempt_at
      LIMIT 1)
    UNION ALL
    SELECT following.subscription_id, following.lane, following.due_at, v.n + 1
      FROM visited v
     CROSS JOIN LATERAL (
           SELECT d.subscription_id, d.lane, d.next_attempt_at AS due_at
             FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id > v.subscription_id
            ORDER BY d.subscription_id, d.lane, d.next_attempt_at
            LIMIT 1) following
     WHERE v.n < %(visits)s
),
-- Paused ones are passed over: their deliveries are held. Those of removed ones are claimed, to be
-- dead-lettered, and need not be due: nothing is sent, and no limit or order holds.
visitable AS MATERIALIZED (
    SELECT v.n, v.subscription_id, v.lane, v.due_at, s.resumed_at, s.max_in_flight, s.rate_limit_per_second AS rate,
           s.ordered AND s.removed_at IS NULL AS is_ordered, f.version,
           CASE WHEN s.removed_at IS NULL THEN t.now ELSE 'infinity' END AS due_by
      FROM visited v
      JOIN webhook_subscriptions s ON s.id = v.subscription_id
      LEFT JOIN webhook_flows f ON f.subscription_id = v.subscription_id
     CROSS JOIN t
     WHERE s.state = 'active' OR s.removed_at IS NOT NULL
),
-- An ordered one has a head, the oldest that is not finished: nothing else of it can start.
open AS MATERIALIZED (
    SELECT v.*, h.waited_at, h.waited_for,
           CASE WHEN v.due_by = 'infinity' THEN %(slots)s
                ELSE least(greatest(0, coalesce(h.share, %(share)s) - coalesce(h.held, 0)), %(slots)s) END AS room,
           coalesce(live.due_at <= v.due_by, false) AS has_live,
           coalesce(replays.due_at <= v.due_by, false) AS has_replays, head.id AS head_id,
           top.lane AS top_lane, live.due_at AS live_due_at, replays.due_at AS replays_due_at, head.due_at AS head_due_at
      FROM visitable v
      LEFT JOIN unnest(%(known_subscriptions)s::uuid[], %(known_held)s::bigint[], %(known_shares)s::bigint[],
                       %(known_waited_at)s::timestamptz[], %(known_waited_for)s::text[])
                AS h(subscription_id, held, share, waited_at, waited_for) ON h.subscription_id = v.subscription_id
      -- The next of each lane, also when it is not due yet: an idle worker sleeps until then.
      -- Ordered and limited, not EXISTS, which may become a hash over the whole index, nor unordered,
      -- which may become a sequential scan: both were measured.
     CROSS JOIN LATERAL (
           SELECT CASE WHEN v.lane = 0 AND NOT v.is_ordered THEN v.due_at END AS due_at) live
      LEFT JOIN LATERAL (
           SELECT d.lane FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id = v.subscription_id
              AND d.lane >= 1    -- where there is none, the probe ends at once: it reads none of the live ones
            ORDER BY d.lane DESC, d.next_attempt_at DESC LIMIT 1) top ON true
      LEFT JOIN LATERAL (
           SELECT d.next_attempt_at AS due_at FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id = v.subscription_id
              AND d.lane = 1 AND NOT v.is_ordered AND top.lane >= 1
            ORDER BY d.next_attempt_at LIMIT 1) replays ON true
      LEFT JOIN LATERAL (
           SELECT d.id, d.next_attempt_at AS due_at FROM webhook_deliveries d
            WHERE d.is_ordered AND d.next_attempt_at IS NOT NULL
              AND d.subscription_id = v.subscription_id AND v.is_ordered
            ORDER BY d.subscription_id, d.position, d.id LIMIT 1) head ON true
),
-- The limits that hold over all workers. The flow row is locked and must be the one of our snapshot:
-- else another claim has taken since, and what is counted here is out of date.
flows AS MATERIALIZED (
    SELECT o.subscription_id, o.rate, b.tokens,
           least(o.room, least(o.max_in_flight, CASE WHEN o.is_ordered THEN 1 END) - k.held,
                 CASE WHEN o.rate IS NOT NULL THEN floor(b.tokens) END)::bigint AS allowance,
           CASE WHEN o.is_ordered THEN 'order' ELSE 'slot' END AS limit_name
      FROM open o
     CROSS JOIN t
     CROSS JOIN LATERAL (
           SELECT f.version, f.tokens, f.refilled_at FROM webhook_flows f
            WHERE f.subscription_id = o.subscription_id
              FOR NO KEY UPDATE OF f SKIP LOCKED) f
      -- A bucket of half a second, but of two at least: no ten seconds see more than a twentieth too many.
     CROSS JOIN LATERAL (
           SELECT CASE WHEN o.rate IS NOT NULL THEN
                       least(greatest(2, o.rate / 2),
                             f.tokens + o.rate * greatest(0, extract(epoch FROM t.now - f.refilled_at))) END AS tokens) b
      LEFT JOIN LATERAL (
           SELECT count(*) AS held FROM webhook_deliveries d
            WHERE d.worker_id IS NOT NULL AND d.subscription_id = o.subscription_id
              AND (o.max_in_flight IS NOT NULL OR o.is_ordered)) k ON true
     WHERE o.version IS NOT NULL AND (o.has_live OR o.has_replays OR o.head_id IS NOT NULL)
       AND f.version = o.version                       -- guard: nobody has taken since
),
able AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.version IS NULL THEN o.room ELSE greatest(0, coalesce(f.allowance, 0)) END AS allowance
      FROM open o
      LEFT JOIN flows f ON f.subscription_id = o.subscription_id
),
-- A suspect may kill its worker: a worker holds one at a time.
suspects AS MATERIALIZED (
    SELECT d.id, d.next_attempt_at, o.subscription_id, o.n, o.resumed_at, o.waited_at, o.waited_for
      FROM able o
     CROSS JOIN LATERAL (
           SELECT d.id, d.next_attempt_at
             FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id = o.subscription_id
              AND d.lane = 2 AND d.next_attempt_at <= o.due_by AND (NOT o.is_ordered OR d.id = o.head_id)
              AND o.top_lane = 2
            ORDER BY d.next_attempt_at
            LIMIT least(%(suspects)s, o.allowance)
              FOR NO KEY UPDATE OF d SKIP LOCKED) d
     LIMIT least(%(suspects)s, %(slots)s)
),
-- Live ones first; where both wait, replays get a fifth, over turns where the room is less than five.
lanes AS MATERIALIZED (
    SELECT o.n, o.subscription_id, o.resumed_at, o.due_by, o.waited_at, o.waited_for, l.lane,
           CASE WHEN l.lane = 1 THEN reserve ELSE r.room - reserve END AS room
      FROM able o
     CROSS JOIN LATERAL (
           SELECT o.allowance - (SELECT count(*) FROM suspects x WHERE x.subscription_id = o.subscription_id) AS room) r
     CROSS JOIN LATERAL (
           SELECT CASE WHEN NOT o.has_replays THEN 0
                       WHEN NOT o.has_live THEN r.room
                       ELSE (r.room + %(turn)s) / 5 END AS reserve) f
     CROSS JOIN (VALUES (0), (1)) AS l(lane)
     WHERE (l.lane = 0 AND o.has_live) OR (l.lane = 1 AND o.has_replays)
),
due AS MATERIALIZED (
    SELECT d.id, d.next_attempt_at, l.subscription_id, l.n, l.resumed_at, l.waited_at, l.waited_for
      FROM (SELECT * FROM lanes ORDER BY n, lane) l
     CROSS JOIN LATERAL (
           SELECT d.id, d.next_attempt_at
             FROM webhook_deliveries d
            WHERE d.worker_id IS NULL AND d.next_attempt_at IS NOT NULL AND d.subscription_id = l.subscription_id
              AND d.lane = l.lane AND d.next_attempt_at <= l.due_by
            ORDER BY d.next_attempt_at
            LIMIT l.room
              FOR NO KEY UPDATE OF d SKIP LOCKED) d
     LIMIT %(slots)s - (SELECT count(*) FROM suspects)
),
heads AS MATERIALIZED (
    SELECT d.id, d.next_attempt_at, o.subscription_id, o.n, o.resumed_at, o.waited_at, o.waited_for
      FROM (SELECT * FROM able WHERE is_ordered AND allowance > 0 ORDER BY n) o
     CROSS JOIN LATERAL (
           SELECT d.id, d.next_attempt_at
             FROM webhook_deliveries d
            WHERE d.id = o.head_id AND d.current_state IN ('ENCRYPTED', 'RETRIED') AND d.lane <> 2
              AND d.next_attempt_at <= o.due_by
              FOR NO KEY UPDATE OF d SKIP LOCKED) d
     LIMIT %(slots)s - (SELECT count(*) FROM suspects) - (SELECT count(*) FROM due)
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'LEASED', worker_id = %(worker_id)s,
           fencing_token = d.fencing_token + 1,       -- every lease has its own token
           lease_expires_at = t.now + %(lease)s, seq = d.seq + 1,
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM (SELECT * FROM due UNION ALL SELECT * FROM heads UNION ALL SELECT * FROM suspects) p
     CROSS JOIN t
     WHERE d.id = p.id
    RETURNING d.id, d.event_id, d.event_type, d.subscription_id, d.fencing_token, d.seq, d.attempt_count, d.budget_start,
              d.max_attempts, d.first_attempt_at, d.lane, p.n,
              CASE WHEN p.resumed_at >= p.next_attempt_at THEN 'paused'
                   WHEN p.waited_at >= p.next_attempt_at THEN p.waited_for
                   WHEN %(slots_full_at)s >= p.next_attempt_at THEN 'slot'
                   ELSE 'worker' END AS waited_for
),
taken AS MATERIALIZED (SELECT subscription_id, count(*) AS n FROM moved GROUP BY subscription_id),
spent AS (
    UPDATE webhook_flows f
       SET version = f.version + 1,
           tokens = CASE WHEN w.rate IS NULL THEN f.tokens ELSE w.tokens - m.n END, refilled_at = t.now
      FROM taken m
      JOIN flows w ON w.subscription_id = m.subscription_id
     CROSS JOIN t
     WHERE f.subscription_id = w.subscription_id
),
trail AS (
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, detail, created_at)
    SELECT m.id, m.seq, 'LEASED', %(worker_id)s, m.fencing_token,
           jsonb_build_object('lease_seconds', extract(epoch FROM %(lease)s), 'waited_for', m.waited_for), t.now
      FROM moved m CROSS JOIN t
),
-- What may have more that a limit keeps back: why, and when its next token is there.
kept_back AS (
    SELECT array_agg(w.subscription_id) AS subscriptions,
           array_agg(CASE WHEN l.tokens < 1 THEN 'rate' ELSE w.limit_name END) AS reasons,
           min(CASE WHEN l.tokens < 1 THEN (1 - l.tokens) / w.rate END) AS ready_in
      FROM flows w
      JOIN open o ON o.subscription_id = w.subscription_id
      LEFT JOIN taken m ON m.subscription_id = w.subscription_id
     CROSS JOIN LATERAL (SELECT w.tokens - coalesce(m.n, 0) AS tokens) l
     WHERE (w.allowance <= coalesce(m.n, 0) AND w.allowance < o.room) OR (o.is_ordered AND m.n IS NULL)
),
coming AS (
    SELECT extract(epoch FROM min(d.due_at) - t.now)::float8 AS due_in
      FROM t
      LEFT JOIN (open o CROSS JOIN LATERAL unnest(ARRAY[o.live_due_at, o.replays_due_at, o.head_due_at]) AS d(due_at))
        ON d.due_at > t.now
     GROUP BY t.now
)
SELECT v.visited, v.last, t.now, k.subscriptions, k.reasons, k.ready_in, c.due_in,
       m.id, m.event_id, m.event_type, m.subscription_id, m.fencing_token, m.attempt_count, m.budget_start,
       m.max_attempts, m.first_attempt_at, m.lane, m.n
  FROM t
 CROSS JOIN (SELECT count(*) AS visited, (array_agg(subscription_id ORDER BY n DESC))[1] AS last FROM visited) v
 CROSS JOIN kept_back k
 CROSS JOIN coming c
  LEFT JOIN moved m ON true;

-- name: attempt_many
-- The lease is re-validated and renewed, and the attempt counted, before its request leaves.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
i AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[], %(urls)s::text[], %(config_versions)s::bigint[])
                  AS i(id, token, url, config_version)
),
held AS MATERIALIZED (
    SELECT i.*
      FROM (SELECT * FROM i ORDER BY id) i
     CROSS JOIN LATERAL (
           SELECT FROM webhook_deliveries d
            WHERE d.id = i.id
              AND coalesce(d.worker_id, '') = %(worker_id)s     -- guard: this process
              AND d.fencing_token = i.token                     -- guard: this lease
              AND d.current_state = 'LEASED'                    -- guard: not attempted already
              FOR NO KEY UPDATE OF d) l
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = 'ATTEMPTED', attempt_count = d.attempt_count + 1, seq = d.seq + 1,
           lease_expires_at = t.now + %(lease)s, first_attempt_at = coalesce(d.first_attempt_at, t.now),
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM held h CROSS JOIN t
     WHERE d.id = h.id
    RETURNING d.id, d.seq, h.token, d.attempt_count, d.first_attempt_at, h.url, h.config_version
),
trail AS (
    INSERT INTO webhook_delivery_attempts (delivery_id, seq, state, worker_id, fencing_token, detail, created_at)
    SELECT m.id, m.seq, 'ATTEMPTED', %(worker_id)s, m.token,
           jsonb_build_object('attempt', m.attempt_count, 'url', m.url, 'config_version', m.config_version), t.now
      FROM moved m CROSS JOIN t
),
-- What matched no row is ours and committed already, by a try whose answer was lost; or it is lost.
missed AS MATERIALIZED (
    SELECT i.id, i.token, told.is_ours
      FROM i
      LEFT JOIN LATERAL (
           SELECT true AS is_ours FROM webhook_delivery_attempts a
            WHERE a.delivery_id = i.id AND a.worker_id = %(worker_id)s
              AND a.fencing_token = i.token AND a.state = 'ATTEMPTED'
            ORDER BY a.delivery_id, a.seq DESC LIMIT 1) told ON true
     WHERE NOT EXISTS (SELECT FROM moved m WHERE m.id = i.id AND m.token = i.token)
),
fenced AS (
    INSERT INTO webhook_fenced_writes (delivery_id, worker_id, fencing_token, would_write, noted_at)
    SELECT i.id, %(worker_id)s, i.token, 'ATTEMPTED', t.now
      FROM missed i CROSS JOIN t
     WHERE i.is_ours IS NULL
    ON CONFLICT ON CONSTRAINT webhook_fenced_writes_once DO NOTHING
)
SELECT m.id, m.attempt_count, m.first_attempt_at, t.now, false AS is_repeat FROM moved m CROSS JOIN t
UNION ALL
SELECT i.id, 0, t.now, t.now, true FROM missed i CROSS JOIN t WHERE i.is_ours;

-- name: renew_many
-- Rows that settle or the reaper holds locked are passed over: they come back as not renewed, and are looked at again.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
i AS MATERIALIZED (SELECT * FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i(id, token)),
held AS MATERIALIZED (
    SELECT i.id
      FROM (SELECT * FROM i ORDER BY id) i
     CROSS JOIN LATERAL (
           SELECT FROM webhook_deliveries d
            WHERE d.id = i.id
              AND coalesce(d.worker_id, '') = %(worker_id)s     -- guard: this process
              AND d.fencing_token = i.token                     -- guard: this lease
              AND d.current_state IN ('LEASED', 'ATTEMPTED')    -- guard: still held
              FOR NO KEY UPDATE OF d SKIP LOCKED) l
),
renewed AS (
    UPDATE webhook_deliveries d SET lease_expires_at = t.now + %(lease)s
      FROM held h CROSS JOIN t
     WHERE d.id = h.id
    RETURNING d.id, d.fencing_token
)
-- By token too: a process that slept can hold a delivery twice, once in vain.
SELECT i.id, i.token FROM i WHERE NOT EXISTS (SELECT FROM renewed r WHERE r.id = i.id AND r.fencing_token = i.token);

-- name: list_lost
-- Of these leases, those that are ours no more. Reads without a lock: a row that is merely locked is not lost.
SELECT i.id, i.token
  FROM unnest(%(ids)s::uuid[], %(tokens)s::bigint[]) AS i(id, token)
  LEFT JOIN webhook_deliveries d ON d.id = i.id
 WHERE (d.worker_id, d.fencing_token) IS DISTINCT FROM (%(worker_id)s::text, i.token);

-- name: reap_expired
-- An expired lease ends the delivery when its budget is spent, or when it has killed its third worker as a suspect.
WITH
t AS MATERIALIZED (SELECT fencepost_now() AS now),
expired AS MATERIALIZED (
    SELECT d.id, d.subscription_id, d.worker_id, d.current_state, d.expiries, d.first_attempt_at,
           d.expiries >= 2 AS was_suspect,
           d.current_state = 'ATTEMPTED' AND d.attempt_count - d.budget_start >= d.max_attempts AS is_spent
      FROM webhook_deliveries d
     WHERE d.worker_id IS NOT NULL
       AND d.lease_expires_at <= (SELECT now FROM t)   -- guard: not renewed since
     ORDER BY d.subscription_id, d.id                  -- the held index's own; locked rows are passed over
     LIMIT %(batch)s
       FOR NO KEY UPDATE OF d SKIP LOCKED
),
judged AS MATERIALIZED (
    SELECT e.*,
           CASE WHEN is_spent OR is_late THEN CASE WHEN was_suspect THEN 'crash_loop' ELSE 'lease_expired' END
                WHEN was_suspect AND expiries >= 4 THEN 'crash_loop' END AS reason
      FROM expired e
     CROSS JOIN t
      LEFT JOIN webhook_subscriptions s ON s.id = e.subscription_id
     CROSS JOIN LATERAL (
           SELECT coalesce(s.retry_preset = 'three-days' AND e.first_attempt_at + interval '72 hours' < t.now, false)
                  AS is_late) l
),
moved AS (
    UPDATE webhook_deliveries d
       SET current_state = CASE WHEN j.reason IS NULL THEN 'RETRIED' ELSE 'DLQ' END,
           worker_id = NULL, lease_expires_at = NULL, seq = d.seq + 2, expiries = d.expiries + 1,
           lane = CASE WHEN d.expiries + 1 >= 2 THEN 2 ELSE d.lane END,
           next_attempt_at = CASE WHEN j.reason IS NULL THEN t.now END,
           dead_at = CASE WHEN j.reason IS NOT NULL THEN t.now END, dead_reason = j.reason,
           last_error = coalesce(j.reason, 'lease_expired'),
           moved_in = pg_current_xact_id(), updated_at = t.now
      FROM judged j CROSS JOIN t
     WHERE d.id = j.id
    RETURNING d.id, d.seq, d.fencing_token, d.current_state, d.expiries, j.worker_id AS holder,
              j.current_state AS from_state, j.reason
),
trail AS (
    INSERT INTO webhook_delivery_attempts
           (delivery_id, seq, state, worker_id, fencing_token, error_message, detail, created_at)
    SELECT m.id, m.seq - 1, 'LEASE_EXPIRED', m.holder, m.fencing_token, NULL,
           jsonb_build_object('from_state', m.from_state, 'expiries', m.expiries), t.now
      FROM moved m CROSS JOIN t
    UNION ALL
    SELECT m.id, m.seq, m.current_state, %(worker_id)s, m.fencing_token, NULL,
           CASE WHEN m.reason IS NULL THEN jsonb_build_object('delay_ms', 0, 'due_at', t.now, 'reason', 'lease_expired')
                ELSE jsonb_build_object('reason', m.reason) END, t.now
      FROM moved m CROSS JOIN t
)
SELECT m.id, m.current_state, m.from_state, m.holder, m.reason FROM moved m;

-- name: server_start
SELECT pg_postmaster_start_time() AS started_at, fencepost_now() AS now;
