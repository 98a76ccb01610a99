-- name: partitions_list
-- The daily partitions of events, results and leases, by name. No locks.
SELECT p.relname::text, c.relname::text
FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent IN ('duly.event'::regclass, 'duly.done'::regclass, 'duly.lease'::regclass) AND c.relname ~ '^(event|done|lease)_\d{8}$'
ORDER BY 1, 2

-- name: partition_strays
-- $1 begin, $2 end, $3 count no further than this. Stands for one table, whose name
-- replaces duly.parent. How many rows of the time lie in its default partition. No locks.
SELECT count(*) FROM (SELECT FROM duly.parent_default WHERE at >= $1 AND at < $2 LIMIT $3) strays

-- name: partition_lock
-- Stands for one table. Nobody writes what no partition was made for until the
-- transaction ends; what has its partition is not disturbed.
LOCK TABLE duly.parent_default IN ACCESS EXCLUSIVE MODE

-- name: partition_make
-- Stands for one table and one of its partitions, whose name replaces duly.partition. A
-- row of a whole batch stays on its page, uncompressed.
CREATE TABLE duly.partition (LIKE duly.parent INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) WITH (toast_tuple_target = 8160)

-- name: partition_move
-- $1 begin, $2 end. Stands for one table and one partition. Moves the rows of the time
-- out of the default partition, which is locked.
WITH strays AS (DELETE FROM duly.parent_default WHERE at >= $1 AND at < $2 RETURNING *)
INSERT INTO duly.partition SELECT * FROM strays

-- name: partition_attach
-- Stands for one table, one partition, and its begin and end, which replace begin and
-- end. Takes no lock on the table that writers or readers wait for, and reads the default
-- partition once, which is empty as a rule.
ALTER TABLE duly.parent ATTACH PARTITION duly.partition FOR VALUES FROM ('begin') TO ('end')

-- name: partition_drop
-- Stands for one partition. Locks the table for an instant: its users wait for it.
DROP TABLE duly.partition

-- name: partition_old
-- $1 before this, $2 rows. Stands for one table. Removes old rows that no partition was
-- made for.
DELETE FROM duly.parent_default
WHERE ctid = ANY (ARRAY(SELECT ctid FROM duly.parent_default WHERE at < $1 LIMIT $2))
