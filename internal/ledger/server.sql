-- name: server_settings
-- The settings of the server that decide whether what it acknowledged survives, and
-- how fast it is, as this session has them. No locks.
SELECT name, current_setting(name)
FROM pg_settings
WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'shared_buffers', 'max_wal_size')
