-- +goose Up
-- Occurrences that were counted and not listed are one row: the period of the last of them,
-- beside that of the first.
ALTER TABLE duly.occurrence ADD COLUMN last_period text;

-- The release of the zone data by which the due times and deadlines of a run's jobs were
-- resolved, when it was frozen.
ALTER TABLE duly.run ADD COLUMN zone_data text;

-- A cleanup that a person gave up, and nobody tries any more. Due ones are taken whatever
-- was to do them when they were put: how a kind is cleaned up behind is as the
-- configuration says at the time.
ALTER TABLE duly.cleanup ADD COLUMN given_up_at timestamptz;
ALTER TABLE duly.cleanup DROP CONSTRAINT cleanup_check;
ALTER TABLE duly.cleanup ADD CONSTRAINT cleanup_check CHECK (num_nonnulls(next_at, parked_at, done_at, given_up_at) = 1);
DROP INDEX duly.cleanup_next;
CREATE INDEX cleanup_next ON duly.cleanup (kind, next_at, job) WHERE next_at IS NOT NULL;

-- +goose Down
DROP INDEX duly.cleanup_next;
CREATE INDEX cleanup_next ON duly.cleanup (kind, by, next_at, job) WHERE next_at IS NOT NULL;
ALTER TABLE duly.cleanup DROP CONSTRAINT cleanup_check;
UPDATE duly.cleanup SET parked_at = given_up_at WHERE given_up_at IS NOT NULL;
ALTER TABLE duly.cleanup ADD CONSTRAINT cleanup_check CHECK (num_nonnulls(next_at, parked_at, done_at) = 1);
ALTER TABLE duly.cleanup DROP COLUMN given_up_at;
ALTER TABLE duly.run DROP COLUMN zone_data;
ALTER TABLE duly.occurrence DROP COLUMN last_period;
