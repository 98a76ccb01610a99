-- name: replace_body
-- $1 job, $2 hash of its key, $3 hash of the new body, $4 destination, $5 payload, $6
-- subject, $7 period, $8 deadline zone, $9 deadline local, $10 trace parent, $11 due,
-- $12 deadline, $13 expires_at: what a replaced request is now. Its state is stored
-- before. The row is locked by the caller; locks the key's row behind it. One row.
WITH replaced AS (
    UPDATE duly.job SET destination = $4, payload = $5, subject = $6, period = $7, deadline_zone = $8,
                        deadline_local = $9, trace_parent = $10, due_at = $11, deadline = $12, expires_at = $13
    WHERE id = $1 AND generation = 1 RETURNING id
)
UPDATE duly.job_key SET body = $3 WHERE hash = $2 AND job = $1 AND EXISTS (SELECT FROM replaced)
