-- +goose Up
-- Where the decisions about each schedule stand: everything up to since is decided.
CREATE TABLE duly.schedule (
    name       text PRIMARY KEY CHECK (name ~ '^[a-z0-9-]{1,64}$'),
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- One occurrence of a schedule for one period. What makes it one run however many
-- schedulers there are, and whatever their clocks say, is the unique period.
CREATE TABLE duly.run (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule    text NOT NULL,
    period      text NOT NULL,
    kind        smallint NOT NULL,
    at          timestamptz NOT NULL,
    local       text NOT NULL,
    zone        text NOT NULL,
    cause       text NOT NULL CHECK (cause IN ('fired', 'late', 'manual')),
    actor       text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'frozen')),
    tries       integer NOT NULL DEFAULT 0,
    next_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    error       text,
    frozen_at   timestamptz,
    selected    bigint,
    refused     bigint,
    linked      bigint,
    digest      bytea,
    ended_upto  bigint NOT NULL DEFAULT 0,    -- no member up to this job is pending
    finished_at timestamptz,
    counts      jsonb,                        -- of its members, once these were removed
    UNIQUE (schedule, period),
    CHECK ((state = 'frozen') = (frozen_at IS NOT NULL AND selected IS NOT NULL AND refused IS NOT NULL AND linked IS NOT NULL AND digest IS NOT NULL)),
    CHECK (state = 'frozen' OR finished_at IS NULL)
) WITH (fillfactor = 50);
CREATE INDEX run_open ON duly.run (next_at, id) WHERE state = 'open';
CREATE INDEX run_unfinished ON duly.run (schedule, id) WHERE finished_at IS NULL;
CREATE INDEX run_retained ON duly.run (finished_at, id) WHERE finished_at IS NOT NULL AND counts IS NULL;

-- The members of a run, jobs of its own and, linked, such as existed before. The hash
-- leads to the key, which says how a job ended that retention has removed. No foreign key:
-- a million members would be a million looks at the one row of their run.
CREATE TABLE duly.run_member (
    run    bigint NOT NULL,
    job    bigint NOT NULL,
    hash   uuid   NOT NULL,
    linked boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run, job)
);

-- Rows of a selection that became no member.
CREATE TABLE duly.run_refused (
    run     bigint NOT NULL REFERENCES duly.run,
    row     bigint NOT NULL,
    key     text,
    subject text,
    field   text NOT NULL,
    rule    text NOT NULL,
    more    text,
    PRIMARY KEY (run, row)
);

-- What became of each occurrence: fired or late with its run, skipped or missed with the
-- reason. Occurrences that were missed in a row are one row.
CREATE TABLE duly.occurrence (
    schedule    text NOT NULL,
    at          timestamptz NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('fired', 'late', 'skipped', 'missed')),
    why         text,
    count       bigint NOT NULL DEFAULT 1,
    last        timestamptz NOT NULL,
    period      text,
    run         bigint REFERENCES duly.run,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schedule, at, outcome),
    CHECK ((run IS NOT NULL) = (outcome IN ('fired', 'late')))
);

-- +goose Down
DROP TABLE duly.occurrence, duly.run_refused, duly.run_member, duly.run, duly.schedule;
