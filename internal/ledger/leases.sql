-- name: leases_of
-- $1 an ended worker, $2 behind this instant, or null for its beginning; $3 how long its
-- leases may have run before it ended; $4 lease rows. The next lease rows of the worker,
-- and of their leases those that run: how many rows, where they end, jobs, generations
-- and fences. Walks (worker, at), then keys; no locks.
--
-- The jobs of a lease row mostly have ids in a row, and none of them runs any more: then
-- one descent of the primary key finds them all, and what lies between is passed over.
-- Where they are scattered, each is looked up.
WITH page AS MATERIALIZED (
    SELECT l.at, l.jobs, l.generations, l.fences
    FROM duly.lease l
    WHERE l.worker = $1
      AND l.at > coalesce($2::timestamptz, (SELECT w.ended_at - $3::interval FROM duly.worker w WHERE w.id = $1))
    ORDER BY l.at FETCH FIRST ($4) ROWS WITH TIES
), running AS (
    SELECT j.id, j.generation, j.fence
    FROM page p
    CROSS JOIN LATERAL (SELECT min(id) AS first, max(id) AS last FROM (SELECT unnest(p.jobs) AS id) u) s
    CROSS JOIN LATERAL (
        SELECT j.id, j.generation, j.fence
        FROM (SELECT * FROM duly.job j WHERE s.last - s.first < 2 * cardinality(p.jobs) AND j.id BETWEEN s.first AND s.last AND j.state = 'leased' OFFSET 0) j
        WHERE (j.id, j.generation, j.fence) IN (SELECT * FROM unnest(p.jobs, p.generations, p.fences))
        UNION ALL
        SELECT j.id, j.generation, j.fence
        FROM unnest(p.jobs, p.generations, p.fences) AS t (id, generation, fence)
        JOIN duly.job j ON j.id = t.id AND j.generation = t.generation
        WHERE s.last - s.first >= 2 * cardinality(p.jobs) AND j.state = 'leased' AND j.fence = t.fence
    ) j
)
SELECT p.rows, p.at, r.jobs, r.generations, r.fences
FROM (SELECT count(*) AS rows, max(at) AS at FROM page) p,
     (SELECT array_agg(id) AS jobs, array_agg(generation) AS generations, array_agg(fence) AS fences FROM running) r

-- name: leases_over
-- $1 behind this instant, $2 how long a lease must be over, $3 lease rows. The next
-- lease rows in the order of their ends that are over, and of their leases those that
-- run; as leases_of. Walks ends_at, then keys; no locks.
WITH page AS MATERIALIZED (
    SELECT l.ends_at, l.jobs, l.generations, l.fences
    FROM duly.lease l
    WHERE l.ends_at > $1 AND l.ends_at <= now() - $2::interval
    ORDER BY l.ends_at FETCH FIRST ($3) ROWS WITH TIES
), running AS (
    SELECT j.id, j.generation, j.fence
    FROM page p
    CROSS JOIN LATERAL (SELECT min(id) AS first, max(id) AS last FROM (SELECT unnest(p.jobs) AS id) u) s
    CROSS JOIN LATERAL (
        SELECT j.id, j.generation, j.fence
        FROM (SELECT * FROM duly.job j WHERE s.last - s.first < 2 * cardinality(p.jobs) AND j.id BETWEEN s.first AND s.last AND j.state = 'leased' OFFSET 0) j
        WHERE (j.id, j.generation, j.fence) IN (SELECT * FROM unnest(p.jobs, p.generations, p.fences))
        UNION ALL
        SELECT j.id, j.generation, j.fence
        FROM unnest(p.jobs, p.generations, p.fences) AS t (id, generation, fence)
        JOIN duly.job j ON j.id = t.id AND j.generation = t.generation
        WHERE s.last - s.first >= 2 * cardinality(p.jobs) AND j.state = 'leased' AND j.fence = t.fence
    ) j
)
SELECT p.rows, p.at, r.jobs, r.generations, r.fences
FROM (SELECT count(*) AS rows, max(ends_at) AS at FROM page) p,
     (SELECT array_agg(id) AS jobs, array_agg(generation) AS generations, array_agg(fence) AS fences FROM running) r
