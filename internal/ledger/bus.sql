-- name: bus
-- The bus that the lanes were moved to; empty if they never were. No locks.
SELECT coalesce(bus, '') FROM duly.ledger

-- name: bus_lock
-- The same. Locks the ledger's own row, so that one move follows the other.
SELECT coalesce(bus, '') FROM duly.ledger FOR UPDATE

-- name: bus_turn
-- Every lane is relayed anew from where its judge stands: whatever is ready has its
-- announcement behind that place. Nobody holds a topic any more, so that what a
-- dispatcher still does for the old bus moves no cursor. The rows are locked.
UPDATE duly.topic t
SET relayed = CASE WHEN t.name = '.dead' THEN t.relayed
                   ELSE coalesce((SELECT j.judged FROM duly.judge j WHERE j.topic = t.name), '3:3:') END,
    pass = NULL, pass_xid = NULL, pass_id = NULL, holder = NULL, held_until = NULL, version = t.version + 1

-- name: bus_unjudge
-- Ends what a mark on the old bus was judging: the next mark speaks for it. The rows
-- are locked.
UPDATE duly.judge SET pass = NULL, pass_mark = NULL, pass_xid = NULL, pass_id = NULL WHERE pass IS NOT NULL

-- name: bus_set
-- $1 the new bus. The row is locked.
UPDATE duly.ledger SET bus = $1

-- name: lanes_unheld
-- The lanes that no dispatcher relays at this moment, in order. No locks.
SELECT name FROM duly.topic
WHERE name <> '.dead' AND (holder IS NULL OR held_until NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '1 minute')
ORDER BY name
