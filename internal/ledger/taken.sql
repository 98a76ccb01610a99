-- name: rows_there
-- $1 jobs, $2 generations: those of them that are there. No locks, and no wait for any.
SELECT j.id, j.generation
FROM unnest($1::bigint[], $2::integer[]) AS t (id, generation)
CROSS JOIN LATERAL (SELECT id, generation FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation OFFSET 0) j
