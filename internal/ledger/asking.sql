-- name: ask_due
-- $1 kind, $2 means, $3 the most. Unknown outcomes that are to be asked about, the first
-- to be asked first: each with how often it was, the row, and what a question needs
-- besides. Locks the entries of the list, and waits for nobody. Walks unknown_ask.
SELECT u.asked, j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code, j.key, j.subject, j.period,
       coalesce((SELECT r.address FROM duly.resolved r WHERE r.job = j.id AND r.generation = j.generation), j.destination)
FROM (SELECT job, generation, asked, ask_at FROM duly.unknown
      WHERE kind = $1 AND lookup = $2 AND ask_at <= now() AND closes_at > now()
      ORDER BY ask_at, job LIMIT $3 FOR UPDATE SKIP LOCKED) u
     CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = u.job AND j.generation = u.generation OFFSET 0) j
WHERE j.state = 'unknown' AND j.successor IS NULL
ORDER BY u.ask_at, u.job

-- name: ask_take
-- $1 jobs, $2 generations, $3 when each is asked again should this asker be lost. The
-- caller has locked the entries.
UPDATE duly.unknown u SET asked = u.asked + 1, ask_at = t.ask_at
FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[]) AS t (job, generation, ask_at)
WHERE u.job = t.job AND u.generation = t.generation AND u.ask_at IS NOT NULL

-- name: ask_note
-- $1 jobs, $2 generations, $3 how often each had been asked then, $4 what was said, $5
-- when it was asked for, $6 details, $7 when it is asked again: notes answers that
-- settled nothing. One that a later question has overtaken is left alone. The caller has
-- locked the jobs' rows, in order.
UPDATE duly.unknown u
SET said = t.said, asked_at = t.asked_at, said_detail = t.detail,
    ask_at = CASE WHEN u.ask_at IS NOT NULL THEN t.ask_at END
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[], $5::timestamptz[], $6::text[], $7::timestamptz[])
     AS t (job, generation, asked, said, asked_at, detail, ask_at)
WHERE u.job = t.job AND u.generation = t.generation AND u.asked = t.asked

-- name: lookup_bounds
-- $1 milliseconds. Goes before a statement of the user's own, in a transaction that only
-- reads: neither it nor a process that is paused around it stands for longer.
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true)
