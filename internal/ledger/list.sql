-- name: list_needing
-- What needs a person, the newest first: $1 state, $2 kind, $3 reason, $4 code, each
-- null for any; $5 since, null for ever; $6 and $7 the place behind which the page
-- begins, null for the beginning; $8 the most. Reads the small tables of quarantined
-- and unknown generations, and the rows that they name. No locks.
SELECT d.job, d.kind, j.key, d.generation, d.state, j.reason, j.last_class, j.last_code, j.attempt, j.fence,
       d.fingerprint, d.detail, d.at, d.closes_at, d.closed, d.lookup, d.asked, d.ask_at, d.said, d.asked_at, d.said_detail,
       EXISTS (SELECT FROM duly.cleanup c WHERE c.job = d.job AND c.done_at IS NOT NULL)
FROM (SELECT job, generation, kind, at, 'quarantined' AS state, fingerprint, detail, NULL::timestamptz AS closes_at, false AS closed,
             NULL AS lookup, NULL::integer AS asked, NULL::timestamptz AS ask_at, NULL AS said, NULL::timestamptz AS asked_at, NULL AS said_detail
      FROM duly.quarantine
      UNION ALL
      SELECT job, generation, kind, at, 'unknown', fingerprint, detail, closes_at, closed, lookup, asked, ask_at, said, asked_at, said_detail
      FROM duly.unknown) d
     JOIN duly.job j ON j.id = d.job AND j.generation = d.generation
WHERE ($1::text IS NULL OR d.state = $1) AND ($2::smallint IS NULL OR d.kind = $2)
  AND ($3::text IS NULL OR j.reason = $3) AND ($4::text IS NULL OR j.last_code = $4)
  AND ($5::timestamptz IS NULL OR d.at >= $5)
  AND ($6::timestamptz IS NULL OR (d.at, d.job) < ($6, $7::bigint))
ORDER BY d.at DESC, d.job DESC
LIMIT $8

-- name: list_newest
-- Current generations in other states, the newest jobs first: $1 state, $2 kind, $3
-- code, each null for any; $4 since, null for ever; $5 the job behind which the page
-- begins, null for the beginning; $6 how many rows are looked at, since no index leads
-- to a state; $7 the most. Returns, behind each entry, how many rows were looked at and
-- the last of them; one row without an entry where none was found. No locks.
WITH looked AS MATERIALIZED (
    SELECT id, generation, kind, key, state, waiting, hold, reason, last_class, last_code, attempt, fence, created_at, wake_at, successor
    FROM duly.job WHERE $5::bigint IS NULL OR id < $5 ORDER BY id DESC, generation DESC LIMIT $6
), found AS (
    SELECT * FROM looked
    WHERE successor IS NULL AND ($1::text IS NULL OR state = $1) AND ($2::smallint IS NULL OR kind = $2)
      AND ($3::text IS NULL OR last_code = $3) AND ($4::timestamptz IS NULL OR created_at >= $4)
    ORDER BY id DESC LIMIT $7
)
SELECT a.n, a.last, f.id, f.kind, f.key, f.generation, f.state, f.waiting, f.hold, f.reason, f.last_class, f.last_code,
       f.attempt, f.fence, f.created_at, f.wake_at,
       EXISTS (SELECT FROM duly.cleanup c WHERE c.job = f.id AND c.done_at IS NOT NULL)
FROM (SELECT count(*) AS n, coalesce(min(id), 0) AS last FROM looked) a LEFT JOIN found f ON true
ORDER BY f.id DESC
