-- +goose Up
-- How far the asking about an unknown outcome has come. It stands in this small table and
-- not on the job row: when it is asked decides nothing about the job.
ALTER TABLE duly.unknown
    ADD COLUMN lookup      text,                        -- by which means its receiver is asked; null: nobody but a person
    ADD COLUMN ask_at      timestamptz,                 -- when it is asked next; null where it is asked no more
    ADD COLUMN asked       integer NOT NULL DEFAULT 0,  -- how often it was
    ADD COLUMN said        text,                        -- the last answer, job.Said
    ADD COLUMN asked_at    timestamptz,                 -- when that was asked for
    ADD COLUMN said_detail text;
CREATE INDEX unknown_ask ON duly.unknown (kind, lookup, ask_at, job) WHERE ask_at IS NOT NULL;

-- +goose Down
DROP INDEX duly.unknown_ask;
ALTER TABLE duly.unknown
    DROP COLUMN lookup, DROP COLUMN ask_at, DROP COLUMN asked, DROP COLUMN said, DROP COLUMN asked_at, DROP COLUMN said_detail;
