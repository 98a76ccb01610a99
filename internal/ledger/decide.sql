-- name: decide_lock
-- $1 job ids, $2 generations. Locks the rows in order of (id, generation) and
-- returns them as they are once locked.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code
FROM (SELECT * FROM unnest($1::bigint[], $2::integer[]) AS t (id, generation) ORDER BY id, generation) t
CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation FOR UPDATE) j

-- name: decide_lock_free
-- As decide_lock, without what another transaction has locked: it never waits.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code
FROM (SELECT * FROM unnest($1::bigint[], $2::integer[]) AS t (id, generation) ORDER BY id, generation) t
CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation FOR UPDATE SKIP LOCKED) j

-- name: decide_store
-- Stores decided rows. $1 ids, $2 generations, $3 and $4 the state and fence that
-- they were decided from, then the columns as decided; $26 is the decision's instant.
-- The caller has locked the rows, so they are where they are found by key: they are
-- updated in place, whatever plan the caller's own transaction would favour. Returns
-- nothing, its row count is checked.
-- expires_at moves only while the generation is pending, ended_at when it leaves that.
UPDATE duly.job j
SET state = t.state, waiting = t.waiting, hold = t.hold, reason = t.reason,
    attempt = t.attempt, unclassified = t.unclassified, fence = t.fence, emission = t.emission,
    origin_at = t.origin_at, first_ready_at = t.first_ready_at, wake_at = t.wake_at, promote_at = t.promote_at,
    expires_at = coalesce(t.expires_at, j.expires_at),
    ended_at = CASE WHEN t.state IN ('scheduled', 'ready', 'leased') THEN NULL
                    WHEN t.state = t.was THEN j.ended_at ELSE $26 END,
    worker = t.worker, leased_at = t.leased_at, lease_limit = t.lease_limit,
    doubt_since = t.doubt_since, doubt_until = t.doubt_until, terms = t.terms, flags = t.flags,
    successor = t.successor, last_class = t.last_class, last_code = t.last_code,
    receipt = coalesce(t.receipt, j.receipt)
FROM (
    SELECT t.*, k.place
    FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[],
            $5::text[], $6::text[], $7::text[], $8::text[],
            $9::integer[], $10::integer[], $11::bigint[], $12::integer[],
            $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::timestamptz[],
            $18::uuid[], $19::timestamptz[], $20::interval[],
            $21::timestamptz[], $22::timestamptz[], $23::smallint[], $24::smallint[],
            $25::integer[], $27::text[], $28::text[], $29::jsonb[])
     AS t (id, generation, was, was_fence,
           state, waiting, hold, reason,
           attempt, unclassified, fence, emission,
           origin_at, first_ready_at, wake_at, promote_at, expires_at,
           worker, leased_at, lease_limit,
           doubt_since, doubt_until, terms, flags,
           successor, last_class, last_code, receipt)
    CROSS JOIN LATERAL (SELECT r.ctid AS place FROM duly.job r WHERE r.id = t.id AND r.generation = t.generation OFFSET 0) k
) t
WHERE j.ctid = t.place AND j.id = t.id AND j.generation = t.generation AND j.state = t.was AND j.fence = t.was_fence

-- name: decide_events
-- Appends events, one element a record, as of $22, the instant of the decisions. The
-- rows are locked, so that a job's events have their ids in the order of its decisions.
INSERT INTO duly.event (at, job, generation, fence, attempt, emission, late, name, from_state, to_state,
                        outcome, class, code, wake_at, why, detail, worker, worker_version, classifier, policy_hash, actor, receipt)
SELECT $22::timestamptz, * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::integer[], $5::integer[], $6::boolean[],
                     $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
                     $13::timestamptz[], $14::text[], $15::text[], $16::uuid[], $17::text[], $18::text[], $19::text[], $20::text[], $21::jsonb[])

-- name: outbox_batch
-- One outbox row for a whole batch: $1 topic, $2 kind, $3 jobs, $4 generations, $5 emissions.
INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions) VALUES ($1, $2, $3, $4, $5)

-- name: outbox_each
-- One outbox row an element: $1 topics, $2 kinds, $3 jobs, $4 generations, $5 emissions, $6 delayed until.
INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions, at)
SELECT t.topic, t.kind, ARRAY[t.job], ARRAY[t.generation], ARRAY[t.emission], t.at
FROM unnest($1::text[], $2::smallint[], $3::bigint[], $4::integer[], $5::integer[], $6::timestamptz[])
     AS t (topic, kind, job, generation, emission, at)

-- name: quarantine_put
-- Lists generations that were quarantined; one element each.
INSERT INTO duly.quarantine (job, generation, kind, at, reason, class, code, fingerprint, detail)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::smallint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
ON CONFLICT (job, generation) DO NOTHING

-- name: quarantine_drop
-- $1 jobs, $2 generations: no longer quarantined, or no longer the current generation.
DELETE FROM duly.quarantine q USING unnest($1::bigint[], $2::integer[]) AS t (job, generation)
WHERE q.job = t.job AND q.generation = t.generation

-- name: unknown_put
-- Lists generations whose outcome is unknown, and when each is asked about first; one
-- element each; closing updates.
INSERT INTO duly.unknown (job, generation, kind, at, code, fingerprint, detail, closes_at, closed, lookup, ask_at)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::smallint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::boolean[],
                     $10::text[], $11::timestamptz[])
ON CONFLICT (job, generation) DO UPDATE SET closed = excluded.closed, ask_at = excluded.ask_at

-- name: unknown_drop
-- $1 jobs, $2 generations: no longer unknown, or no longer the current generation.
DELETE FROM duly.unknown u USING unnest($1::bigint[], $2::integer[]) AS t (job, generation)
WHERE u.job = t.job AND u.generation = t.generation
