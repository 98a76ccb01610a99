-- +goose Up
-- Where an attempt is sent whose destination was asked for right before it. A row is there
-- before the first byte, so that whoever repeats an attempt that may have happened goes to
-- the same place. One of a generation: the newest attempt's. It leaves with its job.
--
-- A job row's flags have one more: 16, a person gave its destination, which is asked for no
-- more.
CREATE TABLE duly.resolved (
    job        bigint  NOT NULL,
    generation integer NOT NULL,
    fence      bigint  NOT NULL,             -- of the attempt that stored it
    address    text    NOT NULL,
    by         text    NOT NULL,             -- machine.Means
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job, generation)
) WITH (fillfactor = 90);

-- +goose Down
DROP TABLE duly.resolved;
