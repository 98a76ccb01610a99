-- name: expire_page
-- $1 instant and $2 job that the page begins behind, $3 rows. The next rows in the order
-- of (expires_at, id) whose instant has come: how many, where they end, and those that
-- wait. What was leased is ended at its end, and most have ended long ago. Walks
-- job_expires; no locks.
WITH page AS MATERIALIZED (
    SELECT j.id, j.generation, j.expires_at, j.state, j.successor FROM duly.job j
    WHERE j.expires_at <= now() AND (j.expires_at, j.id) > ($1::timestamptz, $2::bigint)
    ORDER BY j.expires_at, j.id LIMIT $3
)
SELECT count(*), max(expires_at), (array_agg(id ORDER BY expires_at DESC, id DESC))[1],
       array_agg(id ORDER BY id) FILTER (WHERE state IN ('scheduled', 'ready')),
       array_agg(generation ORDER BY id) FILTER (WHERE state IN ('scheduled', 'ready'))
FROM page
