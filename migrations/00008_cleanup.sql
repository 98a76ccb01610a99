-- +goose Up
-- Due cleanups, and those that are done: one of a job at most, which is one of an
-- operation key, since a key keeps its job for good. A row is put with the end of its
-- job, retired with a redrive, and leaves with its job.
CREATE TABLE duly.cleanup (
    job           bigint   PRIMARY KEY,
    generation    integer  NOT NULL,            -- behind which it is cleaned up
    kind          smallint NOT NULL,
    by            text     NOT NULL,            -- machine.CleanupRule.By
    accepted      boolean  NOT NULL,            -- delivered as the rule asks; else ended otherwise
    due_at        timestamptz NOT NULL,         -- when the gate opens
    next_at       timestamptz,                  -- when it is tried next
    parked_at     timestamptz,                  -- since when it waits for a person
    done_at       timestamptz,
    tries         integer NOT NULL DEFAULT 0,   -- since a person last asked for it
    failing_since timestamptz,                  -- the first failure of these
    failed_at     timestamptz,                  -- the newest of all, and why
    error         text,
    rows_changed  bigint,
    CHECK (num_nonnulls(next_at, parked_at, done_at) = 1)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX cleanup_next ON duly.cleanup (kind, by, next_at, job) WHERE next_at IS NOT NULL;
CREATE INDEX cleanup_due ON duly.cleanup (due_at) WHERE next_at IS NOT NULL;
CREATE INDEX cleanup_failing ON duly.cleanup (failed_at, job) WHERE failed_at IS NOT NULL AND done_at IS NULL;

-- +goose Down
DROP TABLE duly.cleanup;
