-- name: lease_refs
-- $1 jobs, $2 generations, $3 emissions, ordered by (job, generation); $4 worker, $5
-- kind, $6 limit, $7 lease time, $8 terms, $9 policy hash. Leases every reference that
-- is plainly leasable: ready, or a retry whose wake_at has come, at the reference's
-- emission, not expired and not in doubt; the machine decides about every other.
-- Nothing is leased under a worker row that has ended. Writes the lease row and
-- returns the leased rows with what their effects need. Locks the leased rows in the
-- order given. HOT for rows that were ready.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS a (id, generation, emission)
), leased AS (
    UPDATE duly.job j
    SET state = 'leased', waiting = NULL, wake_at = NULL, promote_at = NULL,
        attempt = j.attempt + 1, fence = j.fence + 1, worker = $4, leased_at = (SELECT now FROM clock), lease_limit = $6,
        terms = coalesce(j.terms, $8), flags = j.flags & ~8::smallint
    FROM asked a
    WHERE j.id = ANY ($1::bigint[]) AND j.id = a.id AND j.generation = a.generation AND j.emission = a.emission AND j.kind = $5
      AND EXISTS (SELECT FROM duly.worker w WHERE w.id = $4 AND w.ended_at IS NULL)
      AND (j.state = 'ready' OR j.state = 'scheduled' AND j.waiting = 'retry' AND j.wake_at <= (SELECT now FROM clock))
      AND j.doubt_since IS NULL
      AND (j.expires_at IS NULL OR j.expires_at > clock_timestamp())
    RETURNING j.id, j.generation, j.emission, j.attempt, j.unclassified, j.fence, j.created_at, j.origin_at, j.first_ready_at,
              j.due_at, j.deadline, j.leased_at, j.flags, j.terms, j.key, j.subject, j.period, j.destination, j.payload,
              j.deadline_zone, j.deadline_local, j.trace_parent
), noted AS (
    INSERT INTO duly.lease (at, ends_at, worker, kind, policy_hash, jobs, generations, fences, attempts)
    SELECT c.now, c.now + $6::interval + $7::interval, $4, $5, $9,
           l.jobs, l.generations, l.fences, l.attempts
    FROM clock c, (SELECT array_agg(id) AS jobs, array_agg(generation) AS generations, array_agg(fence) AS fences, array_agg(attempt) AS attempts
                   FROM leased) l
    WHERE l.jobs IS NOT NULL
)
SELECT c.now, l.* FROM clock c LEFT JOIN leased l ON true

-- name: lease_note
-- The lease row of leases that the machine decided: $1 worker, $2 kind, $3 limit, $4
-- lease time, $5 policy hash, $6 jobs, $7 generations, $8 fences, $9 attempts, $10 now.
INSERT INTO duly.lease (at, ends_at, worker, kind, policy_hash, jobs, generations, fences, attempts)
VALUES ($10, $10::timestamptz + $3::interval + $4::interval, $1, $2, $5, $6, $7, $8, $9)

-- name: lease_bodies
-- $1 jobs, $2 generations: what the effects of leased rows need, and where an earlier
-- attempt of each was sent whose destination was asked for. No locks.
SELECT j.id, j.generation, j.key, j.subject, j.period, j.destination, j.payload, j.deadline_zone, j.deadline_local, j.trace_parent,
       r.address, r.by, r.fence, r.at
FROM unnest($1::bigint[], $2::integer[]) AS t (id, generation)
CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation OFFSET 0) j
LEFT JOIN duly.resolved r ON r.job = t.id AND r.generation = t.generation

-- name: lease_held
-- $1 worker, $2 jobs, $3 generations, $4 emissions: the rows among them that the
-- worker holds at these emissions. No locks.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code
FROM unnest($2::bigint[], $3::integer[], $4::integer[]) AS t (id, generation, emission)
CROSS JOIN LATERAL (
    SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation AND j.emission = t.emission OFFSET 0
) j
WHERE j.state = 'leased' AND j.worker = $1
ORDER BY j.id, j.generation

-- name: worker_alive
-- $1 worker. Whether its row lives. No locks: a lease that slips in behind the end of
-- the row is ended by the sweep, which repeats until none is left.
SELECT ended_at IS NULL FROM duly.worker WHERE id = $1
