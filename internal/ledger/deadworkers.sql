-- name: workers_beat
-- Every worker whose row has not ended, with its count of heartbeats. No locks.
SELECT id, label, version, heartbeat, lease_time FROM duly.worker WHERE drained_at IS NULL AND ended_at IS NULL

-- name: workers_undrained
-- Every worker whose row has ended and whose leases are still looked for, the first to
-- end first. No locks.
SELECT id FROM duly.worker WHERE drained_at IS NULL AND ended_at IS NOT NULL ORDER BY ended_at, id

-- name: worker_drained
-- $1 worker. Notes that no lease of it was left. Locks its row.
UPDATE duly.worker SET drained_at = clock_timestamp() WHERE id = $1 AND ended_at IS NOT NULL AND drained_at IS NULL
