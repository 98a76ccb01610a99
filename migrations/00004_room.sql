-- +goose Up
-- Half a page was not room enough: a job of a batch is inserted, leased and settled
-- before anything prunes its page, which makes three versions of each row. With 30 they
-- fit beside each other: every update is HOT, and no new row lands on a page of old ones
-- after a VACUUM. New pages follow; those that exist keep what they hold.
ALTER TABLE duly.job SET (fillfactor = 30);

-- +goose Down
ALTER TABLE duly.job SET (fillfactor = 50);
