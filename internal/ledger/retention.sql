-- name: remove_jobs
-- $1 jobs, in order, $2 the hashes of their keys, $3 retention. Removes the jobs that
-- ended for good longer ago than that, with all their generations, once their keys say
-- how they ended: a late copy of a request is answered as before. What came back to
-- life, is locked, or has a cleanup that is neither done nor given up, is left. Locks the current generations, waiting for nobody, then
-- keys and older generations, in order of the jobs.
WITH locked AS MATERIALIZED (
    SELECT j.id, j.state, a.hash
    FROM unnest($1::bigint[], $2::uuid[]) AS a (id, hash) JOIN duly.job j ON j.id = a.id
    WHERE j.successor IS NULL AND j.ended_at < clock_timestamp() - $3::interval
      AND (j.state IN ('delivered', 'quarantined', 'cancelled') OR j.state = 'unknown' AND j.flags & 2 <> 0)
      AND NOT EXISTS (SELECT FROM duly.cleanup c WHERE c.job = j.id AND c.done_at IS NULL AND c.given_up_at IS NULL)
    ORDER BY j.id
    FOR UPDATE OF j SKIP LOCKED
), kept AS (
    UPDATE duly.job_key k SET state = l.state FROM locked l WHERE k.hash = l.hash AND k.job = l.id RETURNING k.job
), quarantined AS (
    DELETE FROM duly.quarantine q USING kept WHERE q.job = kept.job
), unknown AS (
    DELETE FROM duly.unknown u USING kept WHERE u.job = kept.job
), cleaned AS (
    DELETE FROM duly.cleanup c USING kept WHERE c.job = kept.job
), resolved AS (
    DELETE FROM duly.resolved r USING kept WHERE r.job = kept.job
), gone AS (
    DELETE FROM duly.job j USING kept WHERE j.id = kept.job
)
SELECT count(*) FROM kept

-- name: remove_workers
-- $1 for how long they have held nothing. Removes the rows of workers that nothing refers
-- to any more.
DELETE FROM duly.worker WHERE drained_at < clock_timestamp() - $1::interval
