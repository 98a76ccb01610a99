-- name: worker_register
-- $1 id, $2 label, $3 version, $4 lease time. An id registers once.
INSERT INTO duly.worker (id, label, version, lease_time) VALUES ($1, $2, $3, $4)

-- name: worker_heartbeat
-- $1 id. Renews the worker's row, unless it was ended. HOT. Returns nothing but its
-- row count.
UPDATE duly.worker SET heartbeat = heartbeat + 1, seen_at = clock_timestamp() WHERE id = $1 AND ended_at IS NULL

-- name: worker_end
-- $1 id, $2 by whom, $3 the heartbeat that was seen last, or null to end it whatever
-- it is. Ends the row for good, by compare-and-set.
UPDATE duly.worker SET ended_at = clock_timestamp(), ended_by = $2
WHERE id = $1 AND ended_at IS NULL AND ($3::bigint IS NULL OR heartbeat = $3)

-- name: reject_put
-- $1 source, $2 source id, $3 error, $4 body. Keeps a bus message that nobody
-- understands, once.
INSERT INTO duly.reject (source, source_id, error, body) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
