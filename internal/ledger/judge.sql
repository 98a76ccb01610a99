-- name: judge_due
-- $1 topic, $2 how long a mark must have passed. Whether there is something to judge.
-- No locks.
SELECT EXISTS (SELECT FROM duly.judge WHERE topic = $1 AND pass IS NOT NULL)
    OR EXISTS (SELECT FROM duly.mark WHERE topic = $1 AND passed_at <= clock_timestamp() - $2::interval)

-- name: judge_add
-- $1 topic. Gives it a judge's cursor, once.
INSERT INTO duly.judge (topic) VALUES ($1) ON CONFLICT DO NOTHING

-- name: judge_lock
-- $1 topic. Where the judge stands. Locks its row; no row while another judges.
SELECT judged::text, pass::text, pass_mark, coalesce(pass_xid, '0'), coalesce(pass_id, 0)
FROM duly.judge WHERE topic = $1 FOR UPDATE SKIP LOCKED

-- name: judge_next
-- $1 topic, $2 how long a mark must have passed. The newest such mark. No locks.
SELECT number, snapshot::text FROM duly.mark
WHERE topic = $1 AND passed_at <= clock_timestamp() - $2::interval
ORDER BY number DESC LIMIT 1

-- name: judge_lost
-- $1 jobs, $2 generations, $3 emissions, $4 the outbox rows that they stand in. Those
-- that are still ready at that emission: their announcement was lost. Not so what was
-- set aside: a row that was taken is judged, those of the tries before it are not, and
-- while it waits for its next try none is. No locks.
SELECT DISTINCT t.job, t.generation, t.emission
FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[]) AS t (job, generation, emission, outbox)
JOIN duly.job j ON j.id = t.job AND j.generation = t.generation
WHERE j.state = 'ready' AND j.emission = t.emission AND j.successor IS NULL
  AND NOT EXISTS (SELECT FROM duly.unsendable u
                  CROSS JOIN LATERAL unnest(u.jobs, u.generations, u.emissions) AS s (job, generation, emission)
                  WHERE (u.retried IS NULL OR u.outbox_id <> t.outbox) AND t.job = ANY (u.jobs)
                    AND s.job = t.job AND s.generation = t.generation AND s.emission = t.emission)

-- name: judge_move
-- $1 topic, $2 whether the pass ends, $3 its snapshot, $4 its mark, $5 xid and $6 id of the
-- last row that was judged. The row is locked.
UPDATE duly.judge
SET judged    = CASE WHEN $2 THEN $3::text::pg_snapshot ELSE judged END,
    pass      = CASE WHEN $2 THEN NULL ELSE $3::text::pg_snapshot END,
    pass_mark = CASE WHEN $2 THEN NULL ELSE $4::bigint END,
    pass_xid  = CASE WHEN $2 THEN NULL ELSE $5::xid8 END,
    pass_id   = CASE WHEN $2 THEN NULL ELSE $6::bigint END
WHERE topic = $1

-- name: marks_judged
-- $1 topic, $2 number. Marks that have said what they could. Locks their rows.
DELETE FROM duly.mark WHERE topic = $1 AND number <= $2
