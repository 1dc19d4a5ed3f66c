-- What the rollups tell of a window of time: minutes of the last day, hours before.

-- name: read_as_of
SELECT as_of FROM webhook_rollup_progress

-- name: read_pulse
-- A number that grows with whatever is counted.
SELECT coalesce(sum(r.received + r.attempts + r.ended + r.failed + r.dead + r.lease_expiries + r.replayed + r.discarded
                    + r.fenced + (SELECT coalesce(sum(u.count), 0) FROM unnest(r.counts) AS u(count))), 0)::bigint
  FROM webhook_rollups r
 WHERE r.subscription_id = %(sub)s AND r.minutes = ANY ('{1,60}')
   AND r.starts_at >= date_bin('1 hour', %(since)s, 'epoch') AND r.starts_at < %(until)s

-- name: by_subscription
r.subscription_id

-- name: by_time
greatest(date_bin(%(step)s, r.starts_at, %(since)s), %(since)s)

-- name: read_figures
-- A window begins with the whole minute, or hour, in which it begins.
WITH
r AS MATERIALIZED (
    SELECT {key} AS key, r.*
      FROM unnest(%(subs)s::uuid[]) AS o(id)
     CROSS JOIN LATERAL (
           SELECT r.* FROM webhook_rollups r
            WHERE r.subscription_id = o.id AND r.minutes = 1
              AND r.starts_at >= date_bin('1 minute', %(since)s, 'epoch') AND r.starts_at < %(until)s
           UNION ALL
           SELECT r.* FROM webhook_rollups r
            WHERE r.subscription_id = o.id AND r.minutes = 60
              AND r.starts_at >= date_bin('1 hour', %(since)s, 'epoch') AND r.starts_at < %(until)s) r
),
packed AS (
    SELECT c.key, array_agg(c.cell) AS cells, array_agg(c.count) AS counts
      FROM (SELECT r.key, u.cell, sum(u.count)::bigint AS count
              FROM r
             CROSS JOIN LATERAL unnest(r.cells, r.counts) AS u(cell, count)
             WHERE u.cell < {width} OR u.cell / {width} = ANY (%(measures)s::integer[])
             GROUP BY r.key, u.cell) c
     GROUP BY c.key
)
SELECT t.*, coalesce(p.cells, '{{}}') AS cells, coalesce(p.counts, '{{}}') AS counts
  FROM (SELECT r.key, sum(r.received) AS received, sum(r.attempts) AS attempts, sum(r.ended) AS ended,
               sum(r.retries) AS retries, sum(r.delivered) AS delivered, sum(r.first_delivered) AS first_delivered,
               sum(r.failed) AS failed, sum(r.lease_expiries) AS lease_expiries, sum(r.dead) AS dead,
               sum(r.replayed) AS replayed, sum(r.discarded) AS discarded, sum(r.fenced) AS fenced
          FROM r
         GROUP BY r.key) t
  LEFT JOIN packed p ON p.key = t.key
