-- name: cleanup_put
-- Puts the cleanups of generations that are over, one element each: $1 jobs, $2
-- generations, ordered by (job, generation); $3 since when, null for the instant at which
-- it ended; of the kinds' rules, $4 by whom, $5 whether only a receipt counts, $6 how long
-- after an accepted delivery, $7 how long after any other end. What is not over is passed
-- over. One that is there is due anew where it is not done and its job has ended
-- otherwise since: what is done, or given up, stays so. The jobs' rows are locked by
-- the caller; locks the rows that it finds, in the order given.
INSERT INTO duly.cleanup AS c (job, generation, kind, by, accepted, due_at, next_at)
SELECT j.id, j.generation, j.kind, t.by, a.accepted, d.at, d.at
FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[], $4::text[], $5::boolean[], $6::interval[], $7::interval[])
         WITH ORDINALITY AS t (id, generation, since, by, receipt, later, after, n)
     CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = t.id AND j.generation = t.generation OFFSET 0) j
     CROSS JOIN LATERAL (SELECT j.state = 'delivered' AND (NOT t.receipt OR j.receipt IS NOT NULL) AS accepted) a
     CROSS JOIN LATERAL (SELECT coalesce(t.since, j.ended_at) + CASE WHEN a.accepted THEN t.later ELSE t.after END AS at) d
WHERE j.successor IS NULL AND (j.state IN ('delivered', 'quarantined', 'cancelled') OR j.state = 'unknown' AND j.flags & 2 <> 0)
ORDER BY t.n
ON CONFLICT (job) DO UPDATE
    SET generation = excluded.generation, by = excluded.by, accepted = excluded.accepted, due_at = excluded.due_at, next_at = excluded.next_at,
        parked_at = NULL, tries = 0, failing_since = NULL
    WHERE c.done_at IS NULL AND c.given_up_at IS NULL AND (c.generation, c.accepted, c.due_at) IS DISTINCT FROM (excluded.generation, excluded.accepted, excluded.due_at)

-- name: cleanup_retire
-- $1 jobs. Their generations are over no more, or have a successor: what was due is not,
-- what is done stays done. Waits for a cleanup that runs. The jobs' rows are locked by the
-- caller, in order.
DELETE FROM duly.cleanup WHERE job = ANY ($1::bigint[]) AND done_at IS NULL

-- name: cleanup_lock
-- $1 job: its cleanup, locked, once one that runs has ended.
SELECT generation, by, accepted, due_at, next_at, tries, failing_since, failed_at, error, parked_at, done_at, given_up_at, rows_changed
FROM duly.cleanup WHERE job = $1 FOR UPDATE

-- name: cleanup_show
-- $1 job: its cleanup. No locks.
SELECT generation, by, accepted, due_at, next_at, tries, failing_since, failed_at, error, parked_at, done_at, given_up_at, rows_changed
FROM duly.cleanup WHERE job = $1

-- name: cleanup_take
-- $1 kind, $2 by what means, $3 the most, $4 until when nobody else takes them, $5 the most
-- tries. Takes due cleanups, the first to be tried first, whatever was to do them when they
-- were put; what a function has begun remains known as such. One that was tried that often,
-- and of which nobody said what came of it, waits for a person instead. Returns what was
-- taken. Only behind a job that is still as the cleanup says. Locks the rows, and waits
-- for nobody. Walks cleanup_next.
WITH due AS MATERIALIZED (
    SELECT c.job, c.generation, c.tries, c.next_at, c.accepted FROM duly.cleanup c
    WHERE c.kind = $1 AND c.next_at <= now() ORDER BY c.next_at, c.job LIMIT $3 FOR UPDATE SKIP LOCKED
), open AS MATERIALIZED (
    SELECT d.job, d.tries < $5::integer AS more, j.key, j.subject, j.period, j.state
    FROM due d CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = d.job AND j.generation = d.generation OFFSET 0) j
    WHERE j.successor IS NULL
      AND (j.state = 'delivered' OR NOT d.accepted AND (j.state IN ('quarantined', 'cancelled') OR j.state = 'unknown' AND j.flags & 2 <> 0))
)
UPDATE duly.cleanup c
SET tries = c.tries + 1,
    by = CASE WHEN c.by = 'go' AND (c.tries > 0 OR c.failed_at IS NOT NULL) THEN c.by ELSE $2 END,
    next_at = CASE WHEN o.more THEN clock_timestamp() + $4::interval END,
    parked_at = CASE WHEN NOT o.more THEN clock_timestamp() END,
    failed_at = CASE WHEN o.more THEN c.failed_at ELSE clock_timestamp() END,
    error = CASE WHEN o.more THEN c.error ELSE 'whoever tried it last never said what came of it' END
FROM open o
WHERE c.job = o.job
RETURNING c.job, c.generation, c.tries, c.failing_since, o.more, o.key, o.subject, o.period, o.state

-- name: cleanup_mine
-- $1 jobs, $2 generations, $3 tries: which of the cleanups are still those that were taken,
-- locked, in order. What another transaction has locked is left.
SELECT c.job
FROM (SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS t (job, generation, tries) ORDER BY job) t
     CROSS JOIN LATERAL (SELECT * FROM duly.cleanup c
                         WHERE c.job = t.job AND c.generation = t.generation AND c.tries = t.tries AND c.next_at IS NOT NULL
                         FOR UPDATE SKIP LOCKED) c

-- name: cleanup_begin
-- Goes before the user's statement about one key: if it fails, it alone is undone.
SAVEPOINT duly_cleanup

-- name: cleanup_check
-- Goes behind it: what it left to be checked with the commit is checked now, so that it
-- fails alone.
SET CONSTRAINTS ALL IMMEDIATE

-- name: cleanup_keep
-- What the statement did stands with the transaction.
RELEASE SAVEPOINT duly_cleanup

-- name: cleanup_undo
-- What the statement did is undone.
ROLLBACK TO SAVEPOINT duly_cleanup

-- name: cleanup_bounds
-- $1 milliseconds. Goes before statements of the user's own: each is planned as the server
-- would plan it, and neither it nor its wait for a lock stands for longer. Nor does a
-- process that is paused between them.
SELECT set_config(s.name, s.value, true)
FROM (SELECT name, reset_val AS value FROM pg_settings
      WHERE name IN ('plan_cache_mode', 'enable_seqscan', 'enable_mergejoin', 'enable_hashjoin', 'enable_nestloop', 'enable_bitmapscan', 'jit')
      UNION ALL
      VALUES ('statement_timeout', $1::text), ('lock_timeout', $1), ('idle_in_transaction_session_timeout', $1)) s

-- name: cleanup_unbound
-- Goes behind them, before the ledger's own.
SELECT set_config(name, reset_val, true) FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout')

-- name: cleanup_back
-- $1 jobs, $2 generations, $3 tries: hands back what was taken and not begun, uncounted;
-- returns the jobs. The rows are locked.
UPDATE duly.cleanup c SET tries = c.tries - 1, next_at = clock_timestamp()
FROM unnest($1::bigint[], $2::integer[], $3::integer[]) AS t (job, generation, tries)
WHERE c.job = t.job AND c.generation = t.generation AND c.tries = t.tries AND c.next_at IS NOT NULL
RETURNING c.job

-- name: cleanup_done
-- $1 jobs, $2 generations, $3 tries, $4 how many rows each statement changed. Notes that
-- these are done, for good, where they are still those that were taken; returns them.
UPDATE duly.cleanup c SET done_at = clock_timestamp(), next_at = NULL, rows_changed = t.rows
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[]) AS t (job, generation, tries, rows)
WHERE c.job = t.job AND c.generation = t.generation AND c.tries = t.tries AND c.next_at IS NOT NULL
RETURNING c.job

-- name: cleanup_failed
-- $1 jobs, $2 generations, $3 tries, $4 why, $5 when each is tried again, null where it
-- waits for a person; notes failures of what is still as it was taken; returns the jobs.
UPDATE duly.cleanup c
SET failed_at = clock_timestamp(), failing_since = coalesce(c.failing_since, clock_timestamp()), error = t.error, next_at = t.again,
    parked_at = CASE WHEN t.again IS NULL THEN clock_timestamp() END
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::text[], $5::timestamptz[]) AS t (job, generation, tries, error, again)
WHERE c.job = t.job AND c.generation = t.generation AND c.tries = t.tries AND c.next_at IS NOT NULL
RETURNING c.job

-- name: cleanup_retry
-- $1 job: its cleanup, which has failed or was given up, is tried again now, and counted
-- from the beginning. Never before its gate opens. Locks the row.
UPDATE duly.cleanup
SET next_at = greatest(clock_timestamp(), due_at), parked_at = NULL, given_up_at = NULL, tries = 0, failing_since = NULL
WHERE job = $1 AND done_at IS NULL AND (failed_at IS NOT NULL OR given_up_at IS NOT NULL)

-- name: cleanup_give_up
-- $1 job: its cleanup, which is not done, is tried no more. Whoever has it notes nothing.
-- Locks the row.
UPDATE duly.cleanup SET given_up_at = clock_timestamp(), next_at = NULL, parked_at = NULL
WHERE job = $1 AND done_at IS NULL AND given_up_at IS NULL

-- name: cleanup_list
-- $1 kind, null for any, $2 whether only those that wait for a person, $3 the most.
-- Cleanups that failed and are neither done nor given up, the newest failure first. Walks cleanup_failing;
-- no locks.
SELECT c.job, c.kind, j.key, c.generation, j.state, c.by, c.due_at, c.tries, c.failed_at, coalesce(c.error, ''), c.next_at, c.parked_at
FROM duly.cleanup c JOIN duly.job j ON j.id = c.job AND j.generation = c.generation
WHERE c.failed_at IS NOT NULL AND c.done_at IS NULL AND c.given_up_at IS NULL AND ($1::smallint IS NULL OR c.kind = $1) AND (NOT $2::boolean OR c.parked_at IS NOT NULL)
ORDER BY c.failed_at DESC, c.job DESC LIMIT $3

-- name: cleanup_figures
-- $1 count no further than this, $2 from when a due one is overdue. Cleanups that are due,
-- those that are overdue, those that fail, those that wait for a person, and for how long
-- the gate of the first has been open. No locks.
SELECT (SELECT count(*) FROM (SELECT FROM duly.cleanup WHERE next_at IS NOT NULL AND due_at <= now() LIMIT $1) n),
       (SELECT count(*) FROM (SELECT FROM duly.cleanup WHERE next_at IS NOT NULL AND due_at <= now() - $2::interval LIMIT $1) n),
       (SELECT count(*) FROM (SELECT FROM duly.cleanup WHERE failed_at IS NOT NULL AND done_at IS NULL AND given_up_at IS NULL LIMIT $1) n),
       (SELECT count(*) FROM (SELECT FROM duly.cleanup WHERE failed_at IS NOT NULL AND done_at IS NULL AND parked_at IS NOT NULL LIMIT $1) n),
       (SELECT clock_timestamp() - min(due_at) FROM duly.cleanup WHERE next_at IS NOT NULL AND due_at <= now())

-- name: cleanup_explain
-- Goes before a statement of the user's own, with its one parameter: how the server would
-- run it, which nothing does. It says so where the role may not. No locks.
EXPLAIN (FORMAT JSON) 
