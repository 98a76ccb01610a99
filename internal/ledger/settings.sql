-- Settings of a transaction, each for the rest of it. durable and bounded say how it
-- commits and how long it may stand; hot, keyed and seek, of which the last counts, say how
-- its statements are planned: not by statistics, which are of another hour.

-- name: durable
-- Makes a transaction that is not ours commit durably, unless it does so anyway.
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')

-- name: bounded
-- Goes before a transaction of more than one round trip. A process that is paused in
-- the middle of one holds its locks no longer than this, then its backend ends.
SELECT set_config('idle_in_transaction_session_timeout', '30s', true)

-- name: hurry
-- $1 milliseconds. The rest of the transaction gives up a lock that it cannot have that
-- soon.
SELECT set_config('lock_timeout', $1::text, true)

-- name: hot
-- Goes before the statements of a transaction. It commits durably, whatever the
-- server's default is, and its statements are planned once, walking indexes in nested
-- loops: that is right for what a loop looks at, whatever the statistics of a young
-- table say, and costs no planning. Without jit: a plan that avoids what is off looks
-- so dear that the server would compile it, for longer than it runs.
SELECT set_config('synchronous_commit', 'on', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_nestloop', 'on', true), set_config('enable_bitmapscan', 'on', true),
       set_config('jit', 'off', true)

-- name: keyed
-- Goes before an update of many rows by their keys; as hot, but rows are found by
-- "id = ANY (keys)", which walks the primary key in order and so locks in order, and are
-- joined with what they become by hash. Without statistics the planner would compare
-- each of them with each.
SELECT set_config('synchronous_commit', 'on', true), set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('enable_seqscan', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_hashjoin', 'on', true), set_config('enable_nestloop', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('jit', 'off', true)

-- name: seek
-- For the rest of the transaction, statements look rows up instead of scanning
-- tables. The leaves of the outbox are empty in one hour and large in the next, so
-- a plan that was made, and kept, for an empty one would read the large one whole.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true)

-- name: clock
-- The ledger's clock, after any wait for locks.
SELECT clock_timestamp()
