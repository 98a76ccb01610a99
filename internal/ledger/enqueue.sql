-- name: enqueue
-- Takes a batch of requests, one element of each array a request, ordered by hash so
-- that two batches cannot deadlock; an array that is null throughout may be null itself.
-- A request whose deadline has passed by the ledger's clock is refused; one whose key
-- is taken is left for enqueue_lookup; every other becomes a job, ready with its
-- emission when it is due, else scheduled. One outbox row a kind announces all that are
-- ready. Returns, in the order of the requests, the ids that they were given; of these,
-- in the same order, those that became jobs; and the ordinals of requests that came too
-- late. Locks nothing but new keys. The caller's transaction commits durably from here
-- on, whatever it had chosen.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now,
           (SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')) AS durable
), given AS MATERIALIZED (
    SELECT t.*, c.now, nextval('duly.job_id') AS id,
           t.due IS NULL OR t.due <= c.now AS ready,
           t.deadline <= c.now AS late
    FROM clock c,
         -- In the list of a SELECT each array is read as it goes; as tables they would be stored first.
         (SELECT unnest($1::uuid[]) AS hash, unnest($2::uuid[]) AS body, unnest($3::smallint[]) AS kind, unnest($4::text[]) AS key,
                 unnest($5::text[]) AS subject, unnest($6::text[]) AS period, unnest($7::text[]) AS destination, unnest($8::bytea[]) AS payload,
                 unnest($9::timestamptz[]) AS due, unnest($10::timestamptz[]) AS deadline, unnest($11::text[]) AS deadline_zone,
                 unnest($12::text[]) AS deadline_local, unnest($13::text[]) AS trace_parent, unnest($14::interval[]) AS max_age,
                 generate_subscripts($1::uuid[], 1) AS n) t
), keys AS (
    INSERT INTO duly.job_key (hash, body, job)
    SELECT hash, body, id FROM given WHERE late IS NOT TRUE ORDER BY n
    ON CONFLICT (hash) DO NOTHING
    RETURNING job
), jobs AS (
    INSERT INTO duly.job (id, kind, key, subject, period, destination, payload, created_at, due_at, deadline,
                          deadline_zone, deadline_local, trace_parent, state, waiting, emission,
                          wake_at, promote_at, first_ready_at, origin_at, expires_at)
    SELECT g.id, g.kind, g.key, g.subject, g.period, g.destination, g.payload, g.now, coalesce(g.due, g.now), g.deadline,
           g.deadline_zone, g.deadline_local, g.trace_parent,
           CASE WHEN g.ready THEN 'ready' ELSE 'scheduled' END,
           CASE WHEN g.ready THEN NULL ELSE 'due' END,
           CASE WHEN g.ready THEN 1 ELSE 0 END,
           CASE WHEN g.ready THEN NULL ELSE g.due END,
           CASE WHEN g.ready THEN NULL ELSE g.due END,
           CASE WHEN g.ready THEN g.now END,
           CASE WHEN g.ready THEN g.now END,
           CASE WHEN g.ready THEN least(g.deadline, g.now + g.max_age) ELSE g.deadline END
    FROM given g JOIN keys ON keys.job = g.id
    RETURNING id, kind, state
), announced AS (
    INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions)
    SELECT k.lane, r.kind, r.jobs, array_fill(1, ARRAY[r.count]), array_fill(1, ARRAY[r.count])
    FROM (SELECT kind, array_agg(id) AS jobs, count(*)::integer FROM jobs WHERE state = 'ready' GROUP BY kind) r
         JOIN duly.kind k ON k.id = r.kind
)
SELECT array_agg(id ORDER BY n), (SELECT array_agg(job) FROM keys), array_agg(n) FILTER (WHERE late) FROM given

-- name: enqueue_lookup
-- $1 hashes of keys that are taken. Returns what they are taken by; state is that of a
-- removed job, null while its row is there. No locks.
SELECT hash, body, job, state FROM duly.job_key WHERE hash = ANY ($1::uuid[])
