-- name: resolved_put
-- $1 jobs, $2 generations, $3 fences, $4 addresses, $5 by which means, ordered by (job,
-- generation); $6 worker. Stores where attempts are about to be sent and returns which it
-- took: those of leases that are the worker's own. What may have happened keeps its
-- address: another one is not taken for a generation in doubt. Stored again by the same
-- fence it is taken again. Locks the jobs' rows against everything but each other's
-- reading, in the order given, so that no lease ends or begins meanwhile.
WITH mine AS MATERIALIZED (
    SELECT t.id, t.generation, t.fence, t.address, t.by, j.doubt_since
    FROM (SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[], $5::text[]) AS t (id, generation, fence, address, by)
          ORDER BY id, generation) t
    CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation AND j.fence = t.fence
                          AND j.worker = $6 AND j.state = 'leased' FOR SHARE) j
)
INSERT INTO duly.resolved AS r (job, generation, fence, address, by)
SELECT m.id, m.generation, m.fence, m.address, m.by FROM mine m
WHERE m.doubt_since IS NULL
   OR NOT EXISTS (SELECT FROM duly.resolved e WHERE e.job = m.id AND e.generation = m.generation AND e.address <> m.address)
ON CONFLICT (job, generation) DO UPDATE
    SET fence = excluded.fence, address = excluded.address, by = excluded.by, at = excluded.at
    WHERE r.fence <= excluded.fence
RETURNING job, generation
