-- name: job_current
-- $1 hash of kind and key. Where the key leads: the job, the last state of a job that
-- was removed, and the current generation with its kind and terms, null where it was
-- removed. No locks.
SELECT k.job, k.state, j.generation, j.kind, j.terms
FROM duly.job_key k LEFT JOIN duly.job j ON j.id = k.job AND j.successor IS NULL
WHERE k.hash = $1

-- name: audit_put
-- $1 actor, $2 action, $3 job, $4 generation, $5 detail: who did what.
INSERT INTO duly.audit (actor, action, job, generation, detail) VALUES ($1, $2, $3, $4, $5)
