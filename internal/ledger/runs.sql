-- name: schedule_add
-- $1 schedule. Everything until now counts as decided of one that is new.
INSERT INTO duly.schedule (name) VALUES ($1) ON CONFLICT DO NOTHING

-- name: schedule_lock
-- $1 schedule. How far it is decided, the clock, and whether a run of it is not over whose
-- occurrence has come: one that a person started ahead is before nobody. No row while
-- another decides. Locks its row.
SELECT s.since, clock_timestamp(),
       EXISTS (SELECT FROM duly.run r WHERE r.schedule = s.name AND r.finished_at IS NULL AND r.at <= clock_timestamp())
FROM duly.schedule s WHERE s.name = $1 FOR UPDATE SKIP LOCKED

-- name: schedule_move
-- $1 schedule, $2 instant up to which it is decided. The row is locked.
UPDATE duly.schedule SET since = $2 WHERE name = $1

-- name: run_open
-- $1 schedule, $2 period, $3 kind, $4 occurrence, $5 its wall time, $6 zone, $7 cause, $8
-- actor. Opens a run; no row if the period has one.
INSERT INTO duly.run (schedule, period, kind, at, local, zone, cause, actor)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (schedule, period) DO NOTHING
RETURNING id

-- name: occurrence_put
-- $1 schedule, $2 instant, $3 outcome, $4 why, $5 count, $6 instant of the last, $7 period,
-- $8 that of the last of many, $9 run. Keeps what was recorded first.
INSERT INTO duly.occurrence (schedule, at, outcome, why, count, last, period, last_period, run)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING

-- name: run_lock
-- $1 schedules. The open run whose turn it is, and its place in the order. Locks it; takes
-- another while somebody freezes it.
SELECT id FROM duly.run
WHERE state = 'open' AND next_at <= clock_timestamp() AND schedule = ANY ($1)
ORDER BY next_at, id LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: runs_by_id
-- $1 ids. Runs. No locks.
SELECT r.id, r.schedule, r.period, r.kind, r.at, r.local, r.zone, r.cause, r.actor, r.created_at, r.state, r.tries, r.error, r.next_at,
       r.frozen_at, r.selected, r.refused, r.linked, r.digest, r.zone_data, r.finished_at
FROM duly.run r WHERE r.id = ANY ($1) ORDER BY r.id

-- name: runs_list
-- $1 schedule or null, $2 period or null, $3 behind this id, descending; null begins with
-- the newest, $4 most. The newest runs. No locks.
SELECT id FROM duly.run
WHERE ($1::text IS NULL OR schedule = $1) AND ($2::text IS NULL OR period = $2) AND ($3::bigint IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4

-- name: members_link
-- $1 run, $2 jobs that existed before, $3 hashes of their keys. They become members; those
-- that were none yet are returned.
INSERT INTO duly.run_member (run, job, hash, linked)
SELECT $1, t.job, t.hash, true FROM unnest($2::bigint[], $3::uuid[]) AS t (job, hash)
ON CONFLICT DO NOTHING
RETURNING job

-- name: members_among
-- $1 run, $2 jobs. Those that are members. No locks.
SELECT job FROM duly.run_member WHERE run = $1 AND job = ANY ($2)

-- name: refused_put
-- $1 run, $2 rows, $3 keys, $4 subjects, $5 fields, $6 rules, $7 more. Keeps what became
-- no member.
INSERT INTO duly.run_refused (run, row, key, subject, field, rule, more)
SELECT $1, t.row, nullif(t.key, ''), nullif(t.subject, ''), t.field, t.rule, nullif(t.more, '')
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS t (row, key, subject, field, rule, more)

-- name: selection_settings
-- $1 milliseconds. Goes before a selection, at whatever database it is asked: dates are
-- shown as ISO has them, and no lock is waited for for longer.
SELECT set_config('datestyle', 'ISO', true), set_config('lock_timeout', $1::text, true)

-- name: run_frozen
-- $1 run, $2 selected, $3 refused, $4 linked, $5 digest, $6 release of the zone data. The
-- row is locked.
UPDATE duly.run
SET state = 'frozen', frozen_at = clock_timestamp(), selected = $2, refused = $3, linked = $4, digest = $5, zone_data = $6, error = NULL
WHERE id = $1

-- name: run_failed
-- $1 run, $2 why, $3 for how long it rests. Only while it is open; locks its row.
UPDATE duly.run SET tries = tries + 1, error = $2, next_at = clock_timestamp() + $3::interval
WHERE id = $1 AND state = 'open'

-- name: run_counts
-- $1 run. Its members by the state of their newest generation; of a job that retention
-- removed, by the last state, which its key keeps. No locks.
SELECT coalesce(j.state, k.state), count(*)
FROM duly.run_member m
LEFT JOIN duly.job j ON j.id = m.job AND j.successor IS NULL
LEFT JOIN duly.job_key k ON j.id IS NULL AND k.hash = m.hash
WHERE m.run = $1
GROUP BY 1

-- name: run_kept_counts
-- $1 run. The counts of members that were removed; null while they are there. No locks.
SELECT counts FROM duly.run WHERE id = $1

-- name: run_retired
-- $1 how long runs are kept after their end. The run that has been over for longest, of
-- those whose members are still there. Locks it; nothing while another removes them.
SELECT id FROM duly.run
WHERE finished_at <= clock_timestamp() - $1::interval AND counts IS NULL
ORDER BY finished_at, id LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: run_keep_counts
-- $1 run, $2 the counts of its members. The row is locked.
UPDATE duly.run SET counts = $2 WHERE id = $1

-- name: run_drop_members
-- $1 run. Removes its members and what it refused: the counts are kept.
WITH members AS (DELETE FROM duly.run_member WHERE run = $1)
DELETE FROM duly.run_refused WHERE run = $1

-- name: run_refusals
-- $1 run, $2 behind this row, $3 most. What became no member, in the order of the
-- selection. No locks.
SELECT row, coalesce(key, ''), coalesce(subject, ''), field, rule, coalesce(more, '')
FROM duly.run_refused WHERE run = $1 AND row > $2 ORDER BY row LIMIT $3

-- name: runs_unfinished
-- Frozen runs that have pending members, as far as is known. No locks.
SELECT id FROM duly.run WHERE state = 'frozen' AND finished_at IS NULL ORDER BY id

-- name: run_ended
-- $1 run, $2 members. Looks at the next members behind those that are known to have ended,
-- as far as the first that is pending, and moves behind all before it. What it passed may be
-- pending again, by an answer of a receiver or a redrive: so at the end it looks at all of
-- them, in the one snapshot of this statement, and a run of which none is pending then is
-- finished; else it goes back to the first that is. Locks the run's row; nothing while
-- another looks. Returns whether there is more to look at now, and whether it is finished.
WITH this AS MATERIALIZED (
    SELECT id, ended_upto FROM duly.run WHERE id = $1 AND finished_at IS NULL FOR UPDATE SKIP LOCKED
), pending AS MATERIALIZED (
    SELECT m.job FROM (SELECT job FROM duly.run_member WHERE run = $1 AND job > (SELECT ended_upto FROM this) ORDER BY job LIMIT $2) m
    WHERE EXISTS (SELECT FROM duly.job j WHERE j.id = m.job AND j.successor IS NULL AND j.state IN ('scheduled', 'ready', 'leased') OFFSET 0)
    ORDER BY m.job LIMIT 1
), page AS MATERIALIZED (
    SELECT count(*) AS members, max(m.job) AS last
    FROM (SELECT job FROM duly.run_member WHERE run = $1 AND job > (SELECT ended_upto FROM this) ORDER BY job LIMIT $2) m
    WHERE NOT EXISTS (SELECT FROM pending)
), reopened AS MATERIALIZED (
    SELECT m.job FROM (SELECT job FROM duly.run_member WHERE run = $1 AND job <= (SELECT ended_upto FROM this) ORDER BY job) m
    WHERE NOT EXISTS (SELECT FROM pending) AND (SELECT members < $2 FROM page)
      AND EXISTS (SELECT FROM duly.job j WHERE j.id = m.job AND j.successor IS NULL AND j.state IN ('scheduled', 'ready', 'leased') OFFSET 0)
    ORDER BY m.job LIMIT 1
), looked AS MATERIALIZED (
    SELECT t.id, t.ended_upto, coalesce(coalesce(p.job, o.job) - 1, g.last, t.ended_upto) AS upto,
           p.job IS NULL AND g.members = $2 AS more, p.job IS NULL AND g.members < $2 AND o.job IS NULL AS over
    FROM this t CROSS JOIN page g LEFT JOIN pending p ON true LEFT JOIN reopened o ON true
), moved AS (
    UPDATE duly.run r
    SET ended_upto = l.upto, finished_at = CASE WHEN l.over THEN clock_timestamp() END
    FROM looked l WHERE r.id = l.id AND (l.over OR l.upto <> l.ended_upto)
)
SELECT more, over FROM looked

-- name: runs_figures
-- For metrics: open runs, the age of the oldest, how many of them have failed, and
-- unfinished ones, by schedule. No locks.
SELECT schedule, count(*) FILTER (WHERE state = 'open'), coalesce(max(clock_timestamp() - at) FILTER (WHERE state = 'open'), '0'),
       count(*) FILTER (WHERE state = 'open' AND tries > 0), count(*) FILTER (WHERE state = 'frozen')
FROM duly.run WHERE finished_at IS NULL GROUP BY schedule

-- name: occurrences
-- $1 schedule, $2 most. The newest occurrences. No locks.
SELECT at, outcome, coalesce(why, ''), count, last, coalesce(period, ''), coalesce(last_period, ''), coalesce(run, 0), recorded_at
FROM duly.occurrence WHERE schedule = $1 ORDER BY at DESC LIMIT $2

-- name: occurrences_retired
-- $1 how long occurrences are kept, $2 the most of each schedule. Removes those, the oldest
-- first, that came and were recorded longer ago than that. Waits for nobody. Walks the
-- primary key.
DELETE FROM duly.occurrence o USING (
    SELECT old.* FROM duly.schedule s CROSS JOIN LATERAL (
        SELECT schedule, at, outcome FROM duly.occurrence
        WHERE schedule = s.name AND at < clock_timestamp() - $1::interval
          AND last < clock_timestamp() - $1::interval AND recorded_at < clock_timestamp() - $1::interval
        ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED) old
) t
WHERE o.schedule = t.schedule AND o.at = t.at AND o.outcome = t.outcome
