-- name: cleanup_gateless
-- $1 count no further than this. Cleanups that are not done and that nobody does, since
-- their kinds have no gate any more. Walks cleanup_next from each such kind; no locks.
SELECT count(*)
FROM (SELECT FROM duly.kind k
           CROSS JOIN LATERAL (SELECT FROM duly.cleanup c WHERE c.kind = k.id AND c.next_at IS NOT NULL LIMIT $1) c
      WHERE NOT k.config ? 'cleanup'
      LIMIT $1) n

-- name: cleanup_waiting
-- Cleanups that are not done and wait for nobody's word, by kind. Reads cleanup_next; no
-- locks.
SELECT k.name, c.n
FROM (SELECT kind, count(*) AS n FROM duly.cleanup WHERE next_at IS NOT NULL GROUP BY kind) c JOIN duly.kind k ON k.id = c.kind
ORDER BY k.name
