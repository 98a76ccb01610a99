-- name: figures
-- $1 count no further than this. What the small tables tell: open unknown outcomes and
-- quarantined generations and the age of the oldest of each, how long what is first in
-- line has been due, the workers that were not ended, what lies in default partitions,
-- and the age of the oldest snapshot that anybody holds, in transactions. No locks.
SELECT (SELECT count(*) FROM (SELECT FROM duly.unknown WHERE NOT closed LIMIT $1) n),
       (SELECT count(*) FROM (SELECT FROM duly.quarantine LIMIT $1) n),
       (SELECT clock_timestamp() - min(at) FROM duly.unknown WHERE NOT closed),
       (SELECT clock_timestamp() - min(at) FROM duly.quarantine),
       (SELECT clock_timestamp() - min(promote_at) FROM duly.job WHERE promote_at <= now()),
       (SELECT count(*) FROM (SELECT FROM duly.worker WHERE drained_at IS NULL AND ended_at IS NULL LIMIT $1) n),
       (SELECT count(*) FROM (SELECT FROM duly.event_default LIMIT $1) n) + (SELECT count(*) FROM (SELECT FROM duly.done_default LIMIT $1) n) + (SELECT count(*) FROM (SELECT FROM duly.lease_default LIMIT $1) n),
       greatest((SELECT max(age(backend_xmin)) FROM pg_stat_activity),
                (SELECT max(greatest(age(xmin), age(catalog_xmin))) FROM pg_replication_slots))::bigint

-- name: figures_lease
-- $1 lease rows. Of the leases that are not over, the oldest lease rows: how many, the
-- age of the oldest lease among them that runs, and the age of the youngest row. Walks
-- ends_at, then keys; no locks.
WITH page AS MATERIALIZED (
    SELECT l.at, l.jobs, l.generations, l.fences FROM duly.lease l
    WHERE l.ends_at > now() ORDER BY l.ends_at LIMIT $1
)
SELECT (SELECT count(*) FROM page), clock_timestamp() - min(p.at) FILTER (WHERE r.runs), clock_timestamp() - max(p.at)
FROM page p
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM unnest(p.jobs, p.generations, p.fences) AS t (id, generation, fence)
                   JOIN duly.job j ON j.id = t.id AND j.generation = t.generation
                   WHERE j.state = 'leased' AND j.fence = t.fence) AS runs
) r
