-- name: restored
-- Whether the ledger lies in another cluster than the one that its cursors are about:
-- it was restored from a dump, or upgraded. No locks.
SELECT l.system_identifier <> c.system_identifier FROM duly.ledger l, pg_control_system() c

-- name: restored_lock
-- Locks the ledger's own row, so that one process does what follows.
SELECT FROM duly.ledger FOR UPDATE

-- name: restore_outbox
-- Writes every outbox row that may still be needed anew, under this transaction and
-- with a new id, and drops all old ones, whose transaction ids mean nothing here. On
-- a lane a row is needed while a job waits for that emission; a notice, and what is
-- on a topic that nobody knows, always. Locks the rows that it drops.
WITH old AS (
    DELETE FROM duly.outbox RETURNING kind, id, at, topic, jobs, generations, emissions, trace_parent
)
INSERT INTO duly.outbox (kind, at, topic, jobs, generations, emissions, trace_parent)
SELECT o.kind, o.at, o.topic, o.jobs, o.generations, o.emissions, o.trace_parent
FROM old o
WHERE o.topic = '.dead'
   OR NOT EXISTS (SELECT FROM duly.topic t WHERE t.name = o.topic)
   OR EXISTS (SELECT FROM unnest(o.jobs, o.generations, o.emissions) AS r (job, generation, emission)
              JOIN duly.job j ON j.id = r.job AND j.generation = r.generation
              WHERE j.state IN ('ready', 'scheduled') AND j.emission = r.emission AND j.successor IS NULL)
ORDER BY o.id

-- name: restore_topics
-- $1 a snapshot from before this transaction. Every relay begins behind it. The rows
-- are locked.
UPDATE duly.topic SET relayed = $1::text::pg_snapshot, pass = NULL, pass_xid = NULL, pass_id = NULL, version = version + 1

-- name: restore_judges
-- $1 the same snapshot. Every judge begins behind it. The rows are locked.
UPDATE duly.judge SET judged = $1::text::pg_snapshot, pass = NULL, pass_mark = NULL, pass_xid = NULL, pass_id = NULL

-- name: restore_marks
-- Drops every mark: they speak of snapshots of the other cluster.
DELETE FROM duly.mark

-- name: restore_passed
-- Drops what they have passed.
DELETE FROM duly.mark_passed

-- name: restore_unsendable
-- What was being tried again waits for its next try.
UPDATE duly.unsendable SET retried = NULL WHERE retried IS NOT NULL

-- name: restored_done
-- From now on the ledger is this cluster's. The row is locked.
UPDATE duly.ledger SET system_identifier = (SELECT system_identifier FROM pg_control_system())
