-- name: patrol_page
-- $1 job that the page begins behind, $2 rows. How many rows the page has, all
-- generations of a job together, and the last job of it. Walks the primary key; no locks.
SELECT count(*), max(id)
FROM (SELECT j.id FROM duly.job j WHERE j.id > $1 ORDER BY j.id FETCH FIRST ($2) ROWS WITH TIES) page

-- name: patrol_rows
-- $1 and $2 jobs that the page lies between, $3 retention, $4 grace. The page's rows that
-- may need something: those that are not terminal, and those whose retention is over; of
-- a lease, whether it lives: its worker's row, its lease row, its time; of an old row,
-- its key. No locks.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code,
       j.state = 'leased' AND NOT EXISTS (
           SELECT FROM duly.worker w
           WHERE w.id = j.worker AND w.ended_at IS NULL
             AND j.leased_at + j.lease_limit + w.lease_time + $4::interval > clock_timestamp()
             AND EXISTS (SELECT FROM duly.lease l WHERE l.worker = j.worker AND l.at = j.leased_at AND j.id = ANY (l.jobs))),
       CASE WHEN j.ended_at < clock_timestamp() - $3::interval THEN j.key END
FROM duly.job j
WHERE j.id > $1 AND j.id <= $2 AND j.successor IS NULL
  AND (j.state IN ('scheduled', 'ready', 'leased')
       OR j.state = 'unknown' AND j.flags & 2 = 0
       OR j.ended_at < clock_timestamp() - $3::interval)
ORDER BY j.id, j.generation
