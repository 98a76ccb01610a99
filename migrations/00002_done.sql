-- +goose Up
-- Delivered results, which are nearly all: one row a statement of them is the event of
-- each of its jobs, as the lease row is of its leases. Insert-only.
--
-- A job leads to it: a row that was delivered changes no more, and names the worker and,
-- as ended_at, the instant of the statement. Its receipt is on the job row alone.
CREATE TABLE duly.done (
    at             timestamptz NOT NULL,
    id             bigint NOT NULL DEFAULT nextval('duly.event_id_seq'), -- drawn once the jobs are locked: it lies in the order of their other events
    worker         uuid NOT NULL,
    worker_version text NOT NULL,
    classifier     text,
    policy_hash    text NOT NULL,
    jobs           bigint[] NOT NULL,
    -- Of each job; null where each is 1, as it is for what succeeds at once.
    generations    integer[],
    fences         bigint[],
    attempts       integer[],
    emissions      integer[]
) PARTITION BY RANGE (at);
CREATE INDEX done_worker ON duly.done (worker, at);
CREATE TABLE duly.done_default PARTITION OF duly.done DEFAULT;

-- The days of which events are kept are those of which results are.
-- +goose StatementBegin
DO $$
DECLARE
    name text;
    day  timestamp;
BEGIN
    FOR name IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'duly.event'::regclass AND c.relname ~ '^event_\d{8}$' LOOP
        day := to_date(right(name, 8), 'YYYYMMDD');
        EXECUTE format('CREATE TABLE duly.%I PARTITION OF duly.done FOR VALUES FROM (%L) TO (%L) WITH (toast_tuple_target = 8160)',
                       replace(name, 'event', 'done'), day AT TIME ZONE 'UTC', (day + interval '1 day') AT TIME ZONE 'UTC');
    END LOOP;
END $$;
-- +goose StatementEnd

-- What happened to jobs, one row an event: those of duly.event and those of duly.done, in
-- the order of their ids. The job row itself and lease rows are not among them.
CREATE VIEW duly.history AS
SELECT at, id, job, fence, generation, attempt, emission, late, name, from_state, to_state, outcome, class, code, wake_at, why, detail,
       worker, worker_version, classifier, policy_hash, actor, receipt
FROM duly.event
UNION ALL
SELECT d.at, d.id, j.id, coalesce(d.fences[d.n], 1), j.generation, coalesce(d.attempts[d.n], 1), coalesce(d.emissions[d.n], 1), false,
       'done', 'leased', 'delivered', 'delivered', NULL, NULL, NULL, NULL, NULL,
       d.worker, d.worker_version, d.classifier, d.policy_hash, 'worker', j.receipt
FROM duly.job j CROSS JOIN LATERAL (
    SELECT d.*, array_position(d.jobs, j.id) AS n FROM duly.done d
    WHERE d.worker = j.worker AND d.at = j.ended_at
    OFFSET 0 -- by job, whatever the planner believes about the size of a partition
) d
WHERE d.n IS NOT NULL AND coalesce(d.generations[d.n], 1) = j.generation;

-- +goose Down
-- Every result becomes an event of its job again; of a job that was removed, without its
-- receipt, which is nowhere any more.
INSERT INTO duly.event (at, id, job, fence, generation, attempt, emission, name, from_state, to_state, outcome,
                        worker, worker_version, classifier, policy_hash, actor, receipt)
OVERRIDING SYSTEM VALUE
SELECT d.at, d.id, u.job, coalesce(d.fences[u.n], 1), coalesce(d.generations[u.n], 1), coalesce(d.attempts[u.n], 1), coalesce(d.emissions[u.n], 1),
       'done', 'leased', 'delivered', 'delivered', d.worker, d.worker_version, d.classifier, d.policy_hash, 'worker', j.receipt
FROM duly.done d
     CROSS JOIN LATERAL unnest(d.jobs) WITH ORDINALITY AS u (job, n)
     LEFT JOIN duly.job j ON j.id = u.job AND j.generation = coalesce(d.generations[u.n], 1);
DROP VIEW duly.history;
DROP TABLE duly.done;
