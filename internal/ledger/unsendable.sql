-- name: unsendable_put
-- $1 outbox id, $2 topic, $3 kind, $4 delayed until, $5 jobs, $6 generations, $7 emissions,
-- $8 error. Sets references of a row aside, besides those of it that are; or notes
-- that their next try failed too: the wait doubles from 10 s to 30 min. Locks the row
-- of this id.
INSERT INTO duly.unsendable AS u (outbox_id, topic, kind, at, jobs, generations, emissions, next_at, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + interval '10 s', $8)
ON CONFLICT (outbox_id) DO UPDATE
    SET jobs        = CASE WHEN u.retried IS NOT NULL THEN excluded.jobs WHEN u.jobs @> excluded.jobs THEN u.jobs ELSE u.jobs || excluded.jobs END,
        generations = CASE WHEN u.retried IS NOT NULL THEN excluded.generations WHEN u.jobs @> excluded.jobs THEN u.generations ELSE u.generations || excluded.generations END,
        emissions   = CASE WHEN u.retried IS NOT NULL THEN excluded.emissions WHEN u.jobs @> excluded.jobs THEN u.emissions ELSE u.emissions || excluded.emissions END,
        tries   = CASE WHEN u.retried IS NOT NULL THEN u.tries + 1 ELSE u.tries END,
        next_at = CASE WHEN u.retried IS NOT NULL THEN clock_timestamp() + least(interval '30 min', interval '10 s' * 2 ^ least(u.tries, 10)) ELSE u.next_at END,
        retried = NULL, error = excluded.error

-- name: unsendable_due
-- $1 topic. Whether anything that is set aside asks for the next three statements. No
-- locks.
SELECT EXISTS (SELECT FROM duly.unsendable WHERE topic = $1 AND (retried IS NOT NULL OR next_at <= clock_timestamp()))

-- name: unsendable_sent
-- $1 topic. Drops what was tried again and taken: its newest row was relayed, and
-- nobody set it aside once more. Locks the rows that it drops.
DELETE FROM duly.unsendable u USING duly.topic t
WHERE t.name = $1 AND u.topic = $1 AND u.retried IS NOT NULL AND pg_visible_in_snapshot(u.retried, t.relayed)

-- name: unsendable_stale
-- $1 topic, a lane. Drops what no job waits for any more. Locks the rows that it drops.
DELETE FROM duly.unsendable u
WHERE u.topic = $1 AND u.retried IS NULL
  AND NOT EXISTS (
      SELECT FROM unnest(u.jobs, u.generations, u.emissions) AS t (job, generation, emission)
      JOIN duly.job j ON j.id = t.job AND j.generation = t.generation AND j.emission = t.emission
      WHERE j.state IN ('ready', 'scheduled') AND j.successor IS NULL)

-- name: unsendable_retry
-- $1 topic, $2 limit. Writes the next try of what is due as new outbox rows. Locks the
-- rows that it takes, in order of their next try; another's are left.
WITH due AS MATERIALIZED (
    SELECT d.*, nextval('duly.outbox_id') AS next_id
    FROM (SELECT outbox_id, topic, kind, at, jobs, generations, emissions FROM duly.unsendable
          WHERE topic = $1 AND retried IS NULL AND next_at <= clock_timestamp()
          ORDER BY next_at, outbox_id LIMIT $2 FOR UPDATE SKIP LOCKED) d
), written AS (
    INSERT INTO duly.outbox (id, topic, kind, at, jobs, generations, emissions)
    SELECT next_id, topic, kind, at, jobs, generations, emissions FROM due
)
UPDATE duly.unsendable u SET outbox_id = due.next_id, retried = pg_current_xact_id()
FROM due WHERE u.outbox_id = due.outbox_id

-- name: unsendable_list
-- $1 limit. What is set aside, the oldest first. No locks.
SELECT outbox_id, topic, kind, jobs, generations, emissions, tries, since, next_at, error
FROM duly.unsendable ORDER BY since, outbox_id LIMIT $1

-- name: unsendable_count
-- How many are set aside, by topic; the table is small. No locks.
SELECT topic, count(*) FROM duly.unsendable GROUP BY topic
