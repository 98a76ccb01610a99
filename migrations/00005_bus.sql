-- +goose Up
-- The bus that lanes are relayed to, once a person has moved them: an address without
-- credentials. Null until then: every dispatcher relays to the bus of its settings.
ALTER TABLE duly.ledger ADD COLUMN bus text;

-- +goose Down
ALTER TABLE duly.ledger DROP COLUMN bus;
