-- name: progress_add
-- $1 name. Gives a loop its place, at the beginning, once.
INSERT INTO duly.progress (name) VALUES ($1) ON CONFLICT DO NOTHING

-- name: progress_take
-- $1 name, $2 the least time between two turns. The loop's place. Locks its row for one
-- turn; no row while another has it, or if its last turn was less than that ago. A turn
-- in the future was before the clock stepped back; so was a place there, behind which
-- nothing would be found until the clock comes to it: the loop goes an hour back.
SELECT CASE WHEN instant > clock_timestamp() THEN clock_timestamp() - interval '1 hour' ELSE coalesce(instant, 'epoch') END,
       CASE WHEN instant > clock_timestamp() THEN 0 ELSE coalesce(id, 0) END, clock_timestamp()
FROM duly.progress
WHERE name = $1 AND at NOT BETWEEN clock_timestamp() - $2::interval AND clock_timestamp()
FOR UPDATE SKIP LOCKED

-- name: progress_read
-- $1 name. The loop's place, as progress_take tells it. No locks.
SELECT CASE WHEN instant > clock_timestamp() THEN clock_timestamp() - interval '1 hour' ELSE coalesce(instant, 'epoch') END,
       CASE WHEN instant > clock_timestamp() THEN 0 ELSE coalesce(id, 0) END
FROM duly.progress WHERE name = $1

-- name: progress_move
-- $1 name, $2 instant, $3 id. Moves the loop's place. The row is locked.
UPDATE duly.progress SET instant = $2, id = $3, at = clock_timestamp() WHERE name = $1
