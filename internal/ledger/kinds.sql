-- name: kinds_load
-- Every kind of the ledger. No locks.
SELECT id, config FROM duly.kind

-- name: kinds_sync
-- $1 names, $2 lanes, $3 configs, $4 hashes, in order of name. Inserts new kinds and
-- updates those whose hash differs; a kind that is not named is left, since jobs may
-- refer to it. What is there as it is draws no number: there are only 32767. Locks the
-- rows that it changes, in order of name.
INSERT INTO duly.kind AS k (name, lane, config, hash)
SELECT g.* FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::text[]) AS g (name, lane, config, hash)
WHERE NOT EXISTS (SELECT FROM duly.kind same WHERE same.name = g.name AND same.hash = g.hash)
ON CONFLICT (name) DO UPDATE
    SET lane = excluded.lane, config = excluded.config, hash = excluded.hash, updated_at = clock_timestamp()
    WHERE k.hash <> excluded.hash

-- name: topics_sync
-- $1 lanes. Gives every lane its topic, once. A topic that exists keeps its cursors.
INSERT INTO duly.topic (name) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING

-- name: terms_load
-- Every known pair of channel and promises. No locks.
SELECT id, channel, promises FROM duly.terms

-- name: terms_add
-- $1 channel, $2 promises. Adds the pair unless it is there; then it draws no number.
INSERT INTO duly.terms (channel, promises)
SELECT $1::text, $2::jsonb WHERE NOT EXISTS (SELECT FROM duly.terms same WHERE same.channel = $1 AND same.promises = $2)
ON CONFLICT DO NOTHING
