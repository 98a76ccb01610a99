-- name: check_begin
-- Keeps partitions from being dropped while a page of the check is read. Goes before
-- the snapshot of its transaction is taken.
LOCK TABLE duly.event, duly.done, duly.lease IN ACCESS SHARE MODE

-- name: check_page
-- $1 jobs behind this id, $2 how many rows: the last job of the next page, null behind the
-- last of all, and the last of all. Walks the primary key; no locks.
SELECT max(id), coalesce((SELECT max(id) FROM duly.job), 0)
FROM (SELECT j.id FROM duly.job j WHERE j.id > $1 ORDER BY j.id FETCH FIRST ($2) ROWS WITH TIES) page

-- name: check_since
-- The first day of which events, results and leases are all kept; null while all are. No locks.
SELECT max(day)
FROM (SELECT min(to_date(right(c.relname, 8), 'YYYYMMDD'))::timestamp AT TIME ZONE 'UTC' AS day
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent IN ('duly.event'::regclass, 'duly.done'::regclass, 'duly.lease'::regclass) AND c.relname ~ '_\d{8}$'
      GROUP BY i.inhparent) kept

-- name: check_rows
-- $1 and $2 jobs that the page lies between: every generation, with its key and the
-- instants by which it is found. Walks the primary key; no locks.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code,
       j.key, j.promote_at, j.expires_at, j.ended_at
FROM duly.job j WHERE j.id > $1 AND j.id <= $2
ORDER BY j.id, j.generation

-- name: check_leases
-- $1 and $2 jobs that the page lies between: their lease rows, as the jobs' own. No
-- index leads from a job to its leases, and none is needed: a row says exactly who
-- leased it last, and when; every earlier lease of a generation was ended by an event
-- that names its worker and its fence, and is the newest lease of that worker before
-- the event that names the job. So each is found along (worker, at), backwards from
-- the event for no longer than the attempt took. No locks.
WITH own AS MATERIALIZED (
    SELECT id, generation, fence, worker, leased_at, created_at
    FROM duly.job WHERE id > $1 AND id <= $2
), known AS (
    SELECT id, worker, leased_at AS since, leased_at AS until, NULL::bigint AS fence FROM own WHERE leased_at IS NOT NULL
    UNION ALL
    SELECT o.id, e.worker, o.created_at, e.at, e.fence
    FROM own o CROSS JOIN LATERAL (
        SELECT e.worker, e.at, e.fence FROM duly.event e
        WHERE e.job = o.id AND e.generation = o.generation AND e.from_state = 'leased' AND NOT e.late AND e.worker IS NOT NULL
          AND (e.fence <> o.fence OR o.leased_at IS NULL)
        OFFSET 0 -- by job, whatever the planner believes about the size of a partition
    ) e
)
SELECT DISTINCT ON (k.id, l.fence) k.id, l.generation, l.fence, l.attempt, l.at, l.ends_at, k.worker, l.policy_hash
FROM known k CROSS JOIN LATERAL (
    SELECT l.at, l.ends_at, l.policy_hash, l.generations[p.n] AS generation, l.fences[p.n] AS fence, l.attempts[p.n] AS attempt
    FROM duly.lease l CROSS JOIN LATERAL (VALUES (array_position(l.jobs, k.id))) AS p (n)
    WHERE l.worker = k.worker AND l.at BETWEEN k.since AND k.until AND p.n IS NOT NULL AND l.fences[p.n] = coalesce(k.fence, l.fences[p.n])
    ORDER BY l.at DESC LIMIT 1
) l
ORDER BY k.id, l.fence

-- name: check_events
-- $1 and $2 jobs that the page lies between: their events, in the order of decisions.
-- A job is locked while it is decided about, so that this is the order of their ids.
-- Walks (job, id) of every partition, and (worker, at) of the results; no locks.
SELECT at, generation, name, from_state, to_state, attempt, fence, emission, outcome, class, code, wake_at, why, detail,
       worker, actor, receipt, late, worker_version, classifier, policy_hash, job
FROM duly.history WHERE job > $1 AND job <= $2 ORDER BY job, id

-- name: check_done
-- $1 worker and $2 instant that the page begins behind, $3 rows. The next results, in the
-- order of (worker, at), and the jobs of each whose current row does not lead to it. What has
-- no row any more was removed after its retention. Walks (worker, at), then keys; no locks.
WITH page AS MATERIALIZED (
    SELECT d.worker, d.at, d.jobs, d.generations FROM duly.done d
    WHERE (d.worker, d.at) > ($1::uuid, $2::timestamptz) ORDER BY d.worker, d.at FETCH FIRST ($3) ROWS WITH TIES
)
SELECT p.worker, p.at, s.job, s.generation, s.kind, s.key
FROM page p LEFT JOIN LATERAL (
    SELECT u.job, coalesce(p.generations[u.n], 1) AS generation, k.name AS kind, j.key
    FROM unnest(p.jobs) WITH ORDINALITY AS u (job, n)
    CROSS JOIN LATERAL (SELECT * FROM duly.job j WHERE j.id = u.job AND j.successor IS NULL OFFSET 0) j
    LEFT JOIN duly.kind k ON k.id = j.kind
    WHERE (j.generation, j.worker, j.ended_at) IS DISTINCT FROM (coalesce(p.generations[u.n], 1), p.worker, p.at)
) s ON true
ORDER BY p.worker, p.at

-- name: check_redrives
-- $1 and $2 jobs that the page lies between: the decisions that opened generations.
-- No locks.
SELECT job, predecessor, successor, forced FROM duly.redrive WHERE job > $1 AND job <= $2 ORDER BY job, successor

-- name: check_lists
-- $1 and $2 jobs that the page lies between: what is listed as quarantined, and as
-- unknown, with when that is closed and whether it is, and how it is asked about, if it
-- is. No locks.
SELECT job, generation, 'quarantined', NULL, false, NULL FROM duly.quarantine WHERE job > $1 AND job <= $2
UNION ALL
SELECT job, generation, 'unknown', closes_at, closed, CASE WHEN ask_at IS NOT NULL THEN lookup END FROM duly.unknown WHERE job > $1 AND job <= $2

-- name: check_cleanups
-- $1 and $2 jobs that the page lies between: cleanups that are not done, with what they
-- are behind. Walks the primary key; no locks.
SELECT job, generation, accepted FROM duly.cleanup WHERE job > $1 AND job <= $2 AND done_at IS NULL ORDER BY job

-- name: check_keys_of
-- $1 hashes of keys: what they lead to. No locks.
SELECT hash, job FROM duly.job_key WHERE hash = ANY ($1::uuid[])

-- name: check_keys
-- $1 keys behind this hash, $2 how many: the next ones, with what their jobs are called.
-- Walks the primary key, then those of the jobs; no locks.
SELECT k.hash, k.job, k.state, n.name, j.key
FROM (SELECT hash, job, state FROM duly.job_key WHERE hash > $1 ORDER BY hash LIMIT $2) k
     LEFT JOIN LATERAL (SELECT j.kind, j.key FROM duly.job j WHERE j.id = k.job AND j.generation = 1 LIMIT 1) j ON true
     LEFT JOIN duly.kind n ON n.id = j.kind
ORDER BY k.hash

-- name: check_outbox
-- $1 a job, or null for all. Current generations that are ready and that nothing
-- announces any more: no outbox row at their emission is left that was not judged, and
-- none of it is set aside for another try. Reads every job row and the outbox, once,
-- from one snapshot. No locks.
SELECT j.id, k.name, j.key, j.generation, j.emission
FROM duly.job j JOIN duly.kind k ON k.id = j.kind
WHERE j.state = 'ready' AND j.successor IS NULL AND ($1::bigint IS NULL OR j.id = $1)
  AND NOT EXISTS (
      SELECT FROM (
          SELECT r.job, r.generation, r.emission
          FROM duly.outbox o
               LEFT JOIN duly.judge g ON g.topic = o.topic
               CROSS JOIN LATERAL unnest(o.jobs, o.generations, o.emissions) AS r (job, generation, emission)
          WHERE o.topic <> '.dead' AND (g.judged IS NULL OR NOT pg_visible_in_snapshot(o.xid, g.judged))
          UNION ALL
          SELECT r.job, r.generation, r.emission
          FROM duly.unsendable u
               CROSS JOIN LATERAL unnest(u.jobs, u.generations, u.emissions) AS r (job, generation, emission)
          WHERE u.topic <> '.dead'
      ) a
      WHERE a.job = j.id AND a.generation = j.generation AND a.emission = j.emission)
ORDER BY j.id

-- name: check_runs
-- $1 runs behind this id, $2 how many: the next runs, as they are kept and as their rows
-- are counted: members, those that were linked, those that lead neither to a job nor to
-- how one ended, refusals, the sum of the counts that retention left (null before), and
-- whether an occurrence of its schedule and instant is recorded. Walks keys; no locks.
SELECT r.id, r.schedule, r.period, r.state, coalesce(r.selected, 0), coalesce(r.refused, 0), coalesce(r.linked, 0),
       m.members, m.linked, m.stray, f.refused, k.kept,
       EXISTS (SELECT FROM duly.occurrence o WHERE o.schedule = r.schedule AND o.at = r.at AND o.run IS NOT NULL)
FROM (SELECT * FROM duly.run WHERE id > $1 ORDER BY id LIMIT $2) r
     CROSS JOIN LATERAL (
         SELECT count(*) AS members, count(*) FILTER (WHERE m.linked) AS linked,
                count(*) FILTER (WHERE NOT EXISTS (SELECT FROM duly.job_key k WHERE k.hash = m.hash AND k.job = m.job
                    AND (k.state IS NOT NULL OR EXISTS (SELECT FROM duly.job j WHERE j.id = m.job)))) AS stray
         FROM duly.run_member m WHERE m.run = r.id
     ) m
     CROSS JOIN LATERAL (SELECT count(*) AS refused FROM duly.run_refused f WHERE f.run = r.id) f
     LEFT JOIN LATERAL (SELECT sum(value::bigint)::bigint AS kept FROM jsonb_each_text(r.counts)) k ON true
ORDER BY r.id

-- name: check_occurrences
-- Occurrences whose run there is not, or is of another period, and members of runs that
-- there are not. Reads both tables once; no locks.
SELECT o.schedule, coalesce(o.period, ''), 'an occurrence of run ' || o.run, coalesce('run ' || r.id || ' of period ' || r.period, 'no such run')
FROM duly.occurrence o LEFT JOIN duly.run r ON r.id = o.run
WHERE o.run IS NOT NULL AND (r.id IS NULL OR (r.schedule, r.period) IS DISTINCT FROM (o.schedule, coalesce(o.period, '')))
UNION ALL
SELECT '', '', m.members || ' members of run ' || m.run, 'no such run'
FROM (SELECT run, count(*) AS members FROM duly.run_member GROUP BY run) m
WHERE NOT EXISTS (SELECT FROM duly.run r WHERE r.id = m.run)
