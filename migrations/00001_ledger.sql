-- +goose Up
-- The ledger: the only authority on state. Every name is qualified, so that no
-- search_path can change its meaning.
CREATE SCHEMA IF NOT EXISTS duly;

-- One row: what this ledger is. system_identifier names the cluster that the
-- cursors' transaction ids belong to; where it differs, the database was restored
-- from a dump or upgraded, and the cursors begin anew.
CREATE TABLE duly.ledger (
    one               boolean PRIMARY KEY DEFAULT true CHECK (one),
    system_identifier bigint  NOT NULL,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO duly.ledger (system_identifier) SELECT system_identifier FROM pg_control_system();

-- Kinds as the schedulers' configuration has them, so that every door refuses alike.
CREATE TABLE duly.kind (
    id         smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text  NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9-]{1,64}$'),
    lane       text  NOT NULL CHECK (lane ~ '^[a-z0-9-]{1,64}$'),
    config     jsonb NOT NULL,               -- machine.Kind
    hash       text  NOT NULL,               -- machine.Kind.Hash
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What a generation's first attempt fixes: channel and promises. There are as many
-- rows as there were different terms, so that a lease writes a number only.
CREATE TABLE duly.terms (
    id       smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel  text  NOT NULL,
    promises jsonb NOT NULL,                 -- machine.Promises
    UNIQUE (channel, promises)
);

-- Identity. A key outlives its job: state is null while the job row is there, and
-- the last state once it was removed, so that a late copy of a request is answered.
CREATE TABLE duly.job_key (
    hash  uuid   PRIMARY KEY,                -- job.KeyHash
    body  uuid   NOT NULL,                   -- job.BodyHash
    job   bigint NOT NULL,
    state text   CHECK (state IN ('delivered', 'quarantined', 'cancelled', 'unknown'))
) WITH (fillfactor = 90);

CREATE SEQUENCE duly.job_id AS bigint CACHE 1;

-- One row per generation. "The job row" is the one without a successor.
--
-- No index names anything that a first lease or a delivered result changes, neither
-- as a column nor in a predicate: those two updates stay HOT.
CREATE TABLE duly.job (
    id             bigint   NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at         timestamptz NOT NULL,
    deadline       timestamptz,
    first_ready_at timestamptz,
    origin_at      timestamptz,              -- first ready of the first generation
    wake_at        timestamptz,              -- what a scheduled row waits for
    promote_at     timestamptz,              -- null unless scheduled: when the scheduler looks
    expires_at     timestamptz,              -- deadline, or the end of age or lifetime
    leased_at      timestamptz,
    ended_at       timestamptz,              -- when a terminal state, or unknown, was entered
    doubt_since    timestamptz,
    doubt_until    timestamptz,
    lease_limit    interval,
    fence          bigint   NOT NULL DEFAULT 0,
    generation     integer  NOT NULL DEFAULT 1 CHECK (generation > 0),
    successor      integer,
    attempt        integer  NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    unclassified   integer  NOT NULL DEFAULT 0,
    emission       integer  NOT NULL DEFAULT 0,
    kind           smallint NOT NULL,        -- duly.kind, whose rows are never removed; a foreign key would lock its row with every job
    terms          smallint,                 -- duly.terms; null until the first attempt
    -- flags: 1 cancel requested, 2 closed, 4 dead notice emitted, 8 end of the newest lease reported
    flags          smallint NOT NULL DEFAULT 0,
    worker         uuid,
    state          text NOT NULL CHECK (state IN ('scheduled', 'ready', 'leased', 'delivered', 'quarantined', 'cancelled', 'unknown')),
    waiting        text CHECK (waiting IN ('due', 'retry', 'held')),
    hold           text,
    reason         text,
    last_class     text,
    last_code      text,
    key            text NOT NULL,
    subject        text,
    period         text,
    destination    text,
    deadline_zone  text,
    deadline_local text,
    trace_parent   text,
    receipt        jsonb,
    payload        bytea NOT NULL,
    PRIMARY KEY (id, generation),
    CHECK ((state = 'scheduled') = (waiting IS NOT NULL)),
    CHECK ((state = 'scheduled') = (promote_at IS NOT NULL)),
    CHECK ((waiting = 'held') IS TRUE = (hold IS NOT NULL)),
    CHECK (state <> 'quarantined' OR doubt_since IS NULL)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX job_promote ON duly.job (promote_at, id) WHERE promote_at IS NOT NULL;
CREATE INDEX job_expires ON duly.job (expires_at, id) WHERE expires_at IS NOT NULL;

-- Quarantined and unknown generations, for lists, alerts and the asking loop. Rows
-- go when the generation leaves the state or gets a successor.
CREATE TABLE duly.quarantine (
    job         bigint  NOT NULL,
    generation  integer NOT NULL,
    kind        smallint NOT NULL,
    at          timestamptz NOT NULL,
    reason      text NOT NULL,
    class       text,
    code        text,
    fingerprint text NOT NULL,
    detail      text,
    PRIMARY KEY (job, generation)
);
CREATE INDEX quarantine_at ON duly.quarantine (at);
CREATE TABLE duly.unknown (
    job         bigint  NOT NULL,
    generation  integer NOT NULL,
    kind        smallint NOT NULL,
    at          timestamptz NOT NULL,
    code        text,
    fingerprint text NOT NULL,
    detail      text,
    closes_at   timestamptz NOT NULL,        -- resolve_within over
    closed      boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job, generation)
);
CREATE INDEX unknown_closes ON duly.unknown (closes_at, job) WHERE NOT closed;
CREATE INDEX unknown_at ON duly.unknown (at) WHERE NOT closed;

-- A worker process. Its leases hang on this row: it is ended once, for good.
CREATE TABLE duly.worker (
    id         uuid PRIMARY KEY,
    label      text NOT NULL,                -- host and pid, for people only
    version    text NOT NULL,
    heartbeat  bigint NOT NULL DEFAULT 1,
    lease_time interval NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    ended_by   text,
    drained_at timestamptz                   -- no lease of it was left at this instant
) WITH (fillfactor = 50);
-- A heartbeat changes neither column nor predicate: it stays HOT.
CREATE INDEX worker_undrained ON duly.worker (id) WHERE drained_at IS NULL;

-- One row a lease statement: the event of its leases, and where a dead worker's
-- jobs are found. Insert-only.
CREATE TABLE duly.lease (
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    ends_at     timestamptz NOT NULL,        -- limit + one lease time
    worker      uuid NOT NULL,
    kind        smallint NOT NULL,
    policy_hash text NOT NULL,
    jobs        bigint[]  NOT NULL,
    generations integer[] NOT NULL,
    fences      bigint[]  NOT NULL,
    attempts    integer[] NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX lease_worker ON duly.lease (worker, at);
CREATE INDEX lease_ends ON duly.lease (ends_at);

-- What happened, append-only. The job row is the first event of a job, the lease
-- row that of a lease; every other transition, and late evidence, is a row here.
CREATE TABLE duly.event (
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    id             bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
    job            bigint  NOT NULL,
    fence          bigint  NOT NULL,
    generation     integer NOT NULL,
    attempt        integer NOT NULL,
    emission       integer NOT NULL,
    late           boolean NOT NULL DEFAULT false,
    name           text NOT NULL,
    from_state     text NOT NULL,
    to_state       text NOT NULL,
    outcome        text,
    class          text,
    code           text,
    wake_at        timestamptz,
    why            text,
    detail         text,
    worker         uuid,
    worker_version text,
    classifier     text,
    policy_hash    text,
    actor          text,
    receipt        jsonb
) PARTITION BY RANGE (at);
CREATE INDEX event_job ON duly.event (job, id);

-- The outbox: what is to be announced, written with the state change that it
-- announces. Insert-only, in leaves that rotate by clock_timestamp(): a leaf is
-- truncated once every row in it is relayed and judged. Read by snapshot
-- difference: xid is the transaction that wrote the row.
CREATE SEQUENCE duly.outbox_id AS bigint CACHE 1;
CREATE TABLE duly.outbox (
    slot        smallint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp())::bigint / 600 % 12)::smallint,
    kind        smallint NOT NULL,
    id          bigint NOT NULL DEFAULT nextval('duly.outbox_id'),
    xid         xid8   NOT NULL DEFAULT pg_current_xact_id(),
    at          timestamptz,                 -- delayed until; null is now
    topic       text NOT NULL,               -- a lane, or '.dead'
    jobs        bigint[]  NOT NULL,
    generations integer[] NOT NULL,
    emissions   integer[] NOT NULL,
    trace_parent text
) PARTITION BY LIST (slot);
CREATE INDEX outbox_cursor ON duly.outbox (topic, xid, id);

-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 0..11 LOOP
        EXECUTE format('CREATE TABLE duly.outbox_%s PARTITION OF duly.outbox FOR VALUES IN (%s) WITH (toast_tuple_target = 8160)', i, i);
    END LOOP;
END $$;
-- +goose StatementEnd
-- What a truncated leaf left over, with the xid that it had.
CREATE TABLE duly.outbox_left PARTITION OF duly.outbox DEFAULT;

-- Partitions of the append-only tables, by day. Schedulers make them ahead; the
-- default ones catch what none was made for.
CREATE TABLE duly.event_default PARTITION OF duly.event DEFAULT;
CREATE TABLE duly.lease_default PARTITION OF duly.lease DEFAULT;

-- The relay's cursors, one row a topic. A pass reads what pass sees and relayed does
-- not, and remembers how far it came.
CREATE TABLE duly.topic (
    name       text PRIMARY KEY,             -- a lane, or '.dead'
    relayed    pg_snapshot NOT NULL DEFAULT '3:3:',
    pass       pg_snapshot,                  -- null between passes
    pass_xid   xid8,
    pass_id    bigint,
    holder     uuid,                         -- whose topic lease
    held_until timestamptz,
    version    bigint NOT NULL DEFAULT 0     -- compare-and-set
) WITH (fillfactor = 50);
INSERT INTO duly.topic (name) VALUES ('.dead');

-- The judge's cursors, one row a lane that was ever judged; a table of their own, so
-- that the judge, who holds its row while it works, never makes the relay wait.
CREATE TABLE duly.judge (
    topic      text PRIMARY KEY REFERENCES duly.topic,
    judged     pg_snapshot NOT NULL DEFAULT '3:3:',
    pass       pg_snapshot,                  -- of the mark being judged; null between passes
    pass_mark  bigint,
    pass_xid   xid8,
    pass_id    bigint
) WITH (fillfactor = 50);

-- Marks: what the dispatcher sent behind all that it relayed.
CREATE TABLE duly.mark (
    number     bigint PRIMARY KEY,           -- drawn from duly.outbox_id
    topic      text NOT NULL REFERENCES duly.topic,
    snapshot   pg_snapshot NOT NULL,         -- the relay cursor's when it was issued
    partitions integer[] NOT NULL,
    issued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    passed_at  timestamptz                   -- when it had passed everywhere
);
CREATE INDEX mark_topic ON duly.mark (topic, number);
-- The largest mark that passed a partition.
CREATE TABLE duly.mark_passed (
    topic     text NOT NULL,
    partition integer NOT NULL,
    number    bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (topic, partition)
) WITH (fillfactor = 50);

-- What the broker will not take, set aside so that what is behind it flows. Its
-- further tries are new outbox rows: outbox_id is the newest one.
CREATE TABLE duly.unsendable (
    outbox_id  bigint PRIMARY KEY,
    topic      text NOT NULL,
    kind       smallint NOT NULL,
    jobs       bigint[] NOT NULL,
    generations integer[] NOT NULL,
    emissions  integer[] NOT NULL,
    at         timestamptz,
    tries      integer NOT NULL DEFAULT 1,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_at    timestamptz NOT NULL,
    retried    xid8,                         -- who wrote the newest row; null until it is due
    error      text NOT NULL
);

-- A loop's place in a walk or along an index, shared by every scheduler.
CREATE TABLE duly.progress (
    name    text PRIMARY KEY,
    instant timestamptz,
    id      bigint,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- A person's decision to open the next generation. Kept as long as keys are.
CREATE TABLE duly.redrive (
    job          bigint  NOT NULL,
    recovery_key uuid    NOT NULL,           -- hash of the key as given
    key_given    text    NOT NULL,
    predecessor  integer NOT NULL,
    successor    integer NOT NULL,
    request      uuid    NOT NULL,           -- hash of generation and corrections
    approver     text    NOT NULL,
    actor        text    NOT NULL,
    reason       text    NOT NULL,
    forced       boolean NOT NULL,
    evidence     text,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, recovery_key),
    UNIQUE (job, predecessor)
);

-- Who did what, append-only.
CREATE TABLE duly.audit (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text NOT NULL,
    action     text NOT NULL,
    job        bigint,
    generation integer,
    detail     jsonb
);

-- Bus messages that could not be understood, set aside and acknowledged.
CREATE TABLE duly.reject (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source     text NOT NULL,
    source_id  text NOT NULL,                -- the message's id, or the hash of its bytes
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    error      text NOT NULL,
    body       bytea NOT NULL,
    UNIQUE (source, source_id)
);

-- +goose Down
DROP SCHEMA duly CASCADE;
