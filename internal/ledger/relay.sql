-- name: topics
-- Every topic. No locks.
SELECT name FROM duly.topic ORDER BY name

-- name: topic_claim
-- $1 topic, $2 holder, $3 for how long (at most a minute). Takes the topic lease or
-- renews it, unless another's lives by the database's clock; one that would live
-- longer than any can was written before the clock stepped back, and is void. Locks
-- the topic's row. Losing it in a crash costs nothing: no durable commit.
WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE duly.topic SET holder = $2, held_until = clock_timestamp() + $3::interval
FROM lazy
WHERE name = $1
  AND (holder IS NULL OR holder = $2 OR held_until NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute')

-- name: topic_release
-- $1 topic, $2 holder. Ends the holder's topic lease. Locks the topic's row.
UPDATE duly.topic SET holder = NULL, held_until = NULL WHERE name = $1 AND holder = $2

-- name: topic_place
-- $1 topic, $2 holder. Where the relay stands: the snapshot that was relayed; the
-- pass's snapshot, which is that of now where no pass is open; how far the pass has
-- come; the version; whether a pass is open; whether the two snapshots differ, and
-- whether in the transactions that were running. No row if another holds the topic.
-- No locks.
SELECT t.relayed::text, p.pass::text, coalesce(t.pass_xid, '0'), coalesce(t.pass_id, 0), t.version,
       t.pass IS NOT NULL, t.relayed::text <> p.pass::text,
       array(SELECT pg_snapshot_xip(t.relayed)) <> array(SELECT pg_snapshot_xip(p.pass))
FROM duly.topic t CROSS JOIN LATERAL (SELECT coalesce(t.pass, pg_current_snapshot()) AS pass) p
WHERE t.name = $1 AND t.holder = $2

-- name: outbox_between
-- $1 topic, $2 snapshot old, $3 snapshot new, $4 xid and $5 id of the last row that was
-- read, $6 limit. The outbox rows that new sees and old did not, in order of (xid,
-- id): first those of transactions that were running in old and have ended since,
-- then those of transactions that came after old. The statement itself may see more
-- than new does, so new is asked about each. Both parts walk the index. No locks.
SELECT x.xid, x.id, x.kind, x.at, x.jobs, x.generations, x.emissions, x.trace_parent
FROM (
    (SELECT r.*
     FROM pg_snapshot_xip($2::text::pg_snapshot) AS late (xid)
     CROSS JOIN LATERAL (
         SELECT o.xid, o.id, o.kind, o.at, o.jobs, o.generations, o.emissions, o.trace_parent
         FROM duly.outbox o
         WHERE o.topic = $1 AND o.xid = late.xid AND o.id > CASE WHEN late.xid = $4::xid8 THEN $5::bigint ELSE 0 END
         ORDER BY o.xid, o.id LIMIT $6
     ) r
     WHERE pg_visible_in_snapshot(late.xid, $3::text::pg_snapshot) AND late.xid >= $4::xid8
     ORDER BY r.xid, r.id LIMIT $6)
    UNION ALL
    (SELECT o.xid, o.id, o.kind, o.at, o.jobs, o.generations, o.emissions, o.trace_parent
     FROM duly.outbox o
     WHERE o.topic = $1
       AND (o.xid, o.id) > (CASE WHEN $4::xid8 >= pg_snapshot_xmax($2::text::pg_snapshot) THEN $4::xid8 ELSE pg_snapshot_xmax($2::text::pg_snapshot) END,
                            CASE WHEN $4::xid8 >= pg_snapshot_xmax($2::text::pg_snapshot) THEN $5::bigint ELSE 0 END)
       AND o.xid < pg_snapshot_xmax($3::text::pg_snapshot)
       AND pg_visible_in_snapshot(o.xid, $3::text::pg_snapshot)
     ORDER BY o.xid, o.id LIMIT $6)
) x
ORDER BY x.xid, x.id LIMIT $6

-- name: topic_advance
-- $1 topic, $2 holder, $3 version, $4 the pass, $5 whether it ends, $6 xid and $7 id of
-- its last acknowledged row. Moves the cursor by compare-and-set. Locks the topic's
-- row. A crash may lose the move: then the rows are announced again, so no durable
-- commit.
WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE duly.topic
SET relayed  = CASE WHEN $5 THEN $4::text::pg_snapshot ELSE relayed END,
    pass     = CASE WHEN $5 THEN NULL ELSE $4::text::pg_snapshot END,
    pass_xid = CASE WHEN $5 THEN NULL ELSE $6::xid8 END,
    pass_id  = CASE WHEN $5 THEN NULL ELSE $7::bigint END,
    version  = version + 1
FROM lazy
WHERE name = $1 AND holder = $2 AND version = $3

-- name: outbox_depth
-- $1 topic, $2 count no further than this. How many outbox rows of the topic are
-- committed and not relayed. Both parts walk the index. No locks.
WITH place AS MATERIALIZED (
    SELECT relayed, pg_snapshot_xmax(relayed) AS upto, coalesce(pass_xid, '0') AS xid, coalesce(pass_id, 0) AS id
    FROM duly.topic WHERE name = $1
)
SELECT count(*) FROM (
    (SELECT 1 FROM place p
     CROSS JOIN LATERAL pg_snapshot_xip(p.relayed) AS late (xid)
     CROSS JOIN LATERAL (
         SELECT 1 FROM duly.outbox o
         WHERE o.topic = $1 AND o.xid = late.xid AND (o.xid, o.id) > (p.xid, p.id) LIMIT $2
     ) r
     LIMIT $2)
    UNION ALL
    (SELECT 1 FROM place p
     CROSS JOIN LATERAL (
         SELECT 1 FROM duly.outbox o
         WHERE o.topic = $1 AND (o.xid, o.id) > (p.xid, p.id) AND o.xid >= p.upto LIMIT $2
     ) r)
    LIMIT $2
) waiting

-- name: notices
-- $1 jobs, $2 generations. What the dead topic says about each, in the order given; of
-- one whose row is gone, nothing. The first attempt is found through the worker that
-- reported its end, the last from the row. No locks.
SELECT j.kind, j.key, j.generation, j.subject, j.period, j.state, j.reason, j.last_class, j.last_code,
       j.attempt, j.created_at, CASE WHEN j.attempt > 1 THEN first.at ELSE j.leased_at END, j.leased_at
FROM unnest($1::bigint[], $2::integer[]) WITH ORDINALITY AS t (id, generation, n)
LEFT JOIN duly.job j USING (id, generation)
LEFT JOIN LATERAL (
    SELECT l.at
    FROM (SELECT e.worker, e.at FROM duly.event e
          WHERE e.job = j.id AND e.generation = j.generation AND e.attempt = 1 AND e.worker IS NOT NULL
          ORDER BY e.id LIMIT 1) e
    CROSS JOIN LATERAL (
        SELECT l.at FROM duly.lease l
        WHERE l.worker = e.worker AND l.at <= e.at AND j.id = ANY (l.jobs)
        ORDER BY l.at DESC LIMIT 1) l
) first ON j.attempt > 1
ORDER BY t.n
