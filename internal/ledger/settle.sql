-- name: settle_done
-- $1 jobs, $2 generations, $3 fences, $4 receipts, ordered by (job, generation); $5
-- worker, $6 its version, $7 policy hashes, $8 classifiers. The hot path of a result:
-- delivered, while the lease is the worker's. Appends the events of what it changed
-- and returns it; the machine decides about every other. HOT. Locks the rows in the
-- order given.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), done AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::jsonb[], $7::text[], $8::text[])
                  AS d (id, generation, fence, receipt, policy_hash, classifier)
), changed AS (
    UPDATE duly.job j
    SET state = 'delivered', ended_at = (SELECT now FROM clock), receipt = d.receipt, last_class = NULL, last_code = NULL,
        doubt_since = NULL, doubt_until = NULL, flags = j.flags | 8::smallint
    FROM done d
    WHERE j.id = ANY ($1::bigint[]) AND j.id = d.id AND j.generation = d.generation AND j.fence = d.fence AND j.worker = $5 AND j.state = 'leased'
    RETURNING j.ended_at AS now, j.id, j.generation, j.fence, j.attempt, j.emission, d.receipt, d.policy_hash, d.classifier
), noted AS (
    INSERT INTO duly.event (at, job, generation, fence, attempt, emission, name, from_state, to_state, outcome,
                            worker, worker_version, classifier, policy_hash, actor, receipt)
    SELECT now, id, generation, fence, attempt, emission, 'done', 'leased', 'delivered', 'delivered', $5, $6, classifier, policy_hash, 'worker', receipt
    FROM changed
)
SELECT id, generation FROM changed

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
