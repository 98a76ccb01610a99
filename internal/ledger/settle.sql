-- name: settle_done
-- $1 jobs, $2 generations, $3 fences, $4 receipts, $5 which of the rules each was decided
-- by, ordered by (job, generation); $6 worker, $7 its version; of the rules, $8
-- classifiers and $9 policy hashes. The hot path of a result: delivered, while the lease
-- is the worker's; the machine decides about every other. Writes one row that is the event
-- of what it changed, for each of the rules, and apart for what succeeded at once and what
-- did not; returns it. HOT. Locks the rows in the order given; ids are drawn behind the
-- last lock.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), changed AS (
    UPDATE duly.job j
    SET state = 'delivered', ended_at = (SELECT now FROM clock), receipt = d.receipt, last_class = NULL, last_code = NULL,
        doubt_since = NULL, doubt_until = NULL, flags = j.flags | 8::smallint
    FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::jsonb[], $5::integer[]) AS d (id, generation, fence, receipt, rules)
    WHERE j.id = ANY ($1::bigint[]) AND j.id = d.id AND j.generation = d.generation AND j.fence = d.fence AND j.worker = $6 AND j.state = 'leased'
    RETURNING j.id, j.generation, j.fence, j.attempt, j.emission, d.rules,
              (j.generation, j.fence, j.attempt, j.emission) = (1, 1, 1, 1) AS plain
)
INSERT INTO duly.done (at, worker, worker_version, classifier, policy_hash, jobs, generations, fences, attempts, emissions)
SELECT (SELECT now FROM clock), $6, $7, ($8::text[])[rules], ($9::text[])[rules], array_agg(id),
       array_agg(generation) FILTER (WHERE NOT plain), array_agg(fence) FILTER (WHERE NOT plain),
       array_agg(attempt) FILTER (WHERE NOT plain), array_agg(emission) FILTER (WHERE NOT plain)
FROM changed GROUP BY rules, plain
RETURNING jobs, generations

-- name: hold_ready
-- $1 jobs, $2 generations, $3 emissions, ordered by (job, generation); $4 the hold, $5
-- for how long. Puts back to scheduled (held) what is ready at its reference's
-- emission and not expired; no fence, no attempt. Appends their events. Locks the rows
-- in the order given.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS a (id, generation, emission)
), held AS (
    UPDATE duly.job j
    SET state = 'scheduled', waiting = 'held', hold = $4,
        wake_at = (SELECT now FROM clock) + $5::interval, promote_at = (SELECT now FROM clock) + $5::interval
    FROM asked a
    WHERE j.id = ANY ($1::bigint[]) AND j.id = a.id AND j.generation = a.generation AND j.emission = a.emission AND j.state = 'ready'
      AND (j.expires_at IS NULL OR j.expires_at > clock_timestamp())
    RETURNING (SELECT now FROM clock) AS now, j.id, j.generation, j.fence, j.attempt, j.emission, j.wake_at,
              (SELECT hash FROM duly.kind k WHERE k.id = j.kind) AS policy_hash
)
INSERT INTO duly.event (at, job, generation, fence, attempt, emission, name, from_state, to_state, wake_at, why, policy_hash, actor)
SELECT now, id, generation, fence, attempt, emission, 'hold', 'ready', 'scheduled', wake_at, $4, policy_hash, 'worker' FROM held
RETURNING job, generation
