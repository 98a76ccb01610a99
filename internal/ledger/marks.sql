-- name: mark_issue
-- $1 topic, $2 holder, $3 partitions. Writes a mark for all that was relayed. No row if
-- another holds the topic. Locks the topic's row against a move of the lanes, which makes
-- marks void that it sees.
INSERT INTO duly.mark (number, topic, snapshot, partitions)
SELECT nextval('duly.outbox_id'), t.name, t.relayed, $3 FROM duly.topic t WHERE t.name = $1 AND t.holder = $2 FOR SHARE OF t
RETURNING number, issued_at

-- name: mark_stands
-- $1 topic. Whether its newest mark has not passed everywhere. No locks.
SELECT passed_at IS NULL FROM duly.mark WHERE topic = $1 ORDER BY number DESC LIMIT 1

-- name: marks_standing
-- Of every lane, the oldest mark that has not passed everywhere, and its age. No locks.
SELECT DISTINCT ON (topic) number, topic, partitions, issued_at, clock_timestamp() - issued_at
FROM duly.mark WHERE passed_at IS NULL ORDER BY topic, number

-- name: mark_lock
-- $1 topic, $2 number. Locks the standing marks up to the one that passed, in order, so
-- that of two partitions that it passes at once one sees the other. No row if the
-- ledger issued no such mark, or has judged it.
SELECT number FROM duly.mark
WHERE topic = $1 AND number <= $2 AND (passed_at IS NULL OR number = $2)
  AND EXISTS (SELECT FROM duly.mark m WHERE m.topic = $1 AND m.number = $2)
ORDER BY number FOR UPDATE

-- name: mark_pass
-- $1 topic, $2 partition, $3 number, which was issued and is locked. Keeps the largest
-- number of the partition. Locks its row.
INSERT INTO duly.mark_passed AS p (topic, partition, number)
SELECT m.topic, $2, m.number FROM duly.mark m WHERE m.topic = $1 AND m.number = $3 AND $2 = ANY (m.partitions)
ON CONFLICT (topic, partition) DO UPDATE SET number = excluded.number, at = clock_timestamp()
    WHERE p.number < excluded.number

-- name: marks_passed
-- $1 topic, $2 number. Notes when the marks up to it have passed everywhere: a later
-- mark speaks for the earlier ones. Locks the rows that it changes; they are locked.
UPDATE duly.mark m SET passed_at = clock_timestamp()
WHERE m.topic = $1 AND m.number <= $2 AND m.passed_at IS NULL
  AND NOT EXISTS (
      SELECT FROM unnest(m.partitions) AS q (partition)
      WHERE NOT EXISTS (SELECT FROM duly.mark_passed p
                        WHERE p.topic = m.topic AND p.partition = q.partition AND p.number >= m.number))
