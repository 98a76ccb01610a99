-- name: closing_page
-- $1 rows. Unknown outcomes whose time of asking is over, the first to be over first.
-- Walks unknown_closes; no locks.
SELECT u.job, u.generation
FROM duly.unknown u JOIN duly.job j ON j.id = u.job AND j.generation = u.generation
WHERE NOT u.closed AND u.closes_at <= now() AND j.state = 'unknown' AND j.successor IS NULL
ORDER BY u.closes_at, u.job LIMIT $1
