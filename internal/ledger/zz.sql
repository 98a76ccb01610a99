-- name: noop
SELECT 1
