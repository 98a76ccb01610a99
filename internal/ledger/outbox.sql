-- name: outbox_leaves
-- The leaves that hold something and are not written now: not the one of this slot,
-- nor its neighbours, for clocks that step and statements that wait. No locks.
SELECT n FROM generate_series(0, 11) AS leaf (n),
     (SELECT (extract(epoch FROM clock_timestamp())::bigint / 600 % 12)::integer AS now) slot
WHERE (n - slot.now + 12) % 12 NOT IN (0, 1, 11) AND pg_relation_size(format('duly.outbox_%s', n)::regclass) > 0
ORDER BY n

-- name: outbox_leftovers
-- $1 at most. Stands for one leaf, whose name replaces duly.outbox_leaf. Its rows that
-- are still needed: not relayed, or, on a lane, not judged and still ready at their
-- emission; every row of a topic that nobody knows. Rows older than both cursors are
-- not looked at. No locks.
WITH RECURSIVE present AS (
    (SELECT topic FROM duly.outbox_leaf ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT (SELECT o.topic FROM duly.outbox_leaf o WHERE o.topic > p.topic ORDER BY o.topic LIMIT 1)
    FROM present p WHERE p.topic IS NOT NULL
), cursors AS MATERIALIZED (
    SELECT p.topic, coalesce(t.relayed, '3:3:') AS relayed,
           CASE WHEN p.topic = '.dead' THEN t.relayed ELSE coalesce(j.judged, '3:3:') END AS judged
    FROM present p
    LEFT JOIN duly.topic t ON t.name = p.topic
    LEFT JOIN duly.judge j ON j.topic = p.topic
    WHERE p.topic IS NOT NULL
)
SELECT o.topic, o.xid, o.id
FROM cursors c
CROSS JOIN LATERAL (
    SELECT o.topic, o.xid, o.id FROM duly.outbox_leaf o
    WHERE o.topic = c.topic AND o.xid >= least(pg_snapshot_xmin(c.relayed), pg_snapshot_xmin(c.judged))
      AND (NOT pg_visible_in_snapshot(o.xid, c.relayed)
           OR NOT pg_visible_in_snapshot(o.xid, c.judged)
              AND EXISTS (SELECT FROM unnest(o.jobs, o.generations, o.emissions) AS r (job, generation, emission)
                          JOIN duly.job j ON j.id = r.job AND j.generation = r.generation
                          WHERE j.state = 'ready' AND j.emission = r.emission AND j.successor IS NULL))
    LIMIT $1
) o
LIMIT $1

-- name: outbox_newer
-- $1 a snapshot, $2 at most. Stands for one leaf. Its rows that the snapshot did not see.
-- No locks.
WITH RECURSIVE present AS (
    (SELECT topic FROM duly.outbox_leaf ORDER BY topic LIMIT 1)
    UNION ALL
    SELECT (SELECT o.topic FROM duly.outbox_leaf o WHERE o.topic > p.topic ORDER BY o.topic LIMIT 1)
    FROM present p WHERE p.topic IS NOT NULL
)
SELECT o.topic, o.xid, o.id
FROM present p
CROSS JOIN LATERAL (
    SELECT o.topic, o.xid, o.id FROM duly.outbox_leaf o
    WHERE o.topic = p.topic AND o.xid >= pg_snapshot_xmin($1::text::pg_snapshot)
      AND NOT pg_visible_in_snapshot(o.xid, $1::text::pg_snapshot)
    LIMIT $2
) o
LIMIT $2

-- name: outbox_now
-- The snapshot of now. It is asked for before anything else of a transaction, which
-- has no id then: whatever id it gets is not in the snapshot.
SELECT pg_current_snapshot()::text

-- name: cursors_lock
-- Holds every relay and every judge where they stand. Locks their rows, in order.
SELECT name FROM duly.topic ORDER BY name FOR NO KEY UPDATE

-- name: judges_lock
-- The second half of cursors_lock.
SELECT topic FROM duly.judge ORDER BY topic FOR NO KEY UPDATE

-- name: leaf_lock
-- Stands for one leaf. Nobody reads or writes it until the transaction ends.
LOCK TABLE duly.outbox_leaf IN ACCESS EXCLUSIVE MODE

-- name: leaf_move
-- $1 topics, $2 xids, $3 ids; one may stand there twice. Stands for one leaf. Copies these
-- rows, as they are, to where leftovers are kept. The leaf and the cursors are locked.
INSERT INTO duly.outbox (slot, kind, id, xid, at, topic, jobs, generations, emissions, trace_parent)
SELECT -1, o.kind, o.id, o.xid, o.at, o.topic, o.jobs, o.generations, o.emissions, o.trace_parent
FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::xid8[], $3::bigint[]) AS t (topic, xid, id)) t
JOIN duly.outbox_leaf o USING (topic, xid, id)

-- name: topics_disturbed
-- $1 topics. Makes a relay that has read from them read again. The rows are locked.
UPDATE duly.topic SET version = version + 1 WHERE name = ANY ($1)

-- name: leaf_truncate
-- Stands for one leaf, which is locked.
TRUNCATE duly.outbox_leaf

-- name: left_drop
-- $1 ids. Drops the leftovers but these. The cursors are locked.
DELETE FROM duly.outbox_left WHERE id <> ALL ($1::bigint[])
