-- name: promote_page
-- $1 instant and $2 job that the page begins behind, $3 rows; $4 kinds, with their $5
-- longest ages, $6 longest lifetimes and $7 policy hashes. Takes the next rows of the
-- order (promote_at, id) whose instant has come, and promotes those that are plainly
-- promotable: of a kind that is given, not expired, not in doubt, not locked by
-- another. The machine decides about what is neither plain nor waits for a mark. Appends
-- events, writes one outbox row a kind, and returns one row: the clock, how long the page
-- is and where it ends, what the machine decides about, and what was promoted. Walks
-- job_promote; locks what it promotes, and waits for nobody.
--
-- A retry on a lane where a mark stands waits for a mark that was issued after its
-- instant: its delayed emission stands in the same queue before that one, and is not
-- lost as long as nothing has passed it. A mark younger than 10 s does not count: it is
-- on its way.
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), kinds AS MATERIALIZED (
    SELECT * FROM unnest($4::smallint[], $5::interval[], $6::interval[], $7::text[]) AS k (kind, max_age, max_lifetime, policy_hash)
), stopped AS MATERIALIZED (
    SELECT k.id AS kind, coalesce((SELECT max(p.issued_at) FROM duly.mark p WHERE p.topic = k.lane AND p.passed_at IS NOT NULL),
                                  '-infinity') AS passed
    FROM duly.kind k
    WHERE EXISTS (SELECT FROM duly.mark m
                  WHERE m.topic = k.lane AND m.passed_at IS NULL AND m.issued_at < clock_timestamp() - interval '10 s')
), page AS MATERIALIZED (
    SELECT j.id, j.generation, j.kind, j.promote_at, j.waiting,
           j.doubt_since IS NULL AND (j.expires_at IS NULL OR j.expires_at > clock_timestamp())
               AND EXISTS (SELECT FROM kinds k WHERE k.kind = j.kind) AS plain,
           NOT (j.waiting = 'retry' AND EXISTS (SELECT FROM stopped s WHERE s.kind = j.kind AND s.passed <= j.promote_at)) AS free
    FROM duly.job j
    WHERE j.promote_at <= now() AND (j.promote_at, j.id) > ($1::timestamptz, $2::bigint)
    ORDER BY j.promote_at, j.id LIMIT $3
), locked AS MATERIALIZED (
    SELECT j.id, j.generation, p.waiting, p.promote_at
    FROM page p JOIN duly.job j ON j.id = p.id AND j.generation = p.generation
    WHERE p.plain AND p.free AND j.promote_at = p.promote_at
    FOR UPDATE OF j SKIP LOCKED
), promoted AS (
    UPDATE duly.job j
    SET state = 'ready', waiting = NULL, hold = NULL, wake_at = NULL, promote_at = NULL, emission = j.emission + 1,
        first_ready_at = coalesce(j.first_ready_at, c.now), origin_at = coalesce(j.origin_at, c.now),
        expires_at = least(j.deadline, coalesce(j.first_ready_at, c.now) + k.max_age, coalesce(j.origin_at, c.now) + k.max_lifetime)
    FROM locked l, clock c, kinds k
    WHERE j.id = l.id AND j.generation = l.generation AND k.kind = j.kind
    RETURNING c.now, j.id, j.generation, j.kind, j.emission, j.fence, j.attempt, l.waiting, l.promote_at, k.policy_hash
), noted AS (
    INSERT INTO duly.event (at, job, generation, fence, attempt, emission, name, from_state, to_state, why, policy_hash, actor)
    SELECT now, id, generation, fence, attempt, emission, 'due', 'scheduled', 'ready', waiting, policy_hash, 'scheduler' FROM promoted
), announced AS (
    INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions)
    SELECT k.lane, k.id, array_agg(p.id), array_agg(p.generation), array_agg(p.emission)
    FROM promoted p JOIN duly.kind k ON k.id = p.kind GROUP BY k.lane, k.id
)
SELECT c.now, p.rows, p.at, p.id, p.odd_jobs, p.odd_generations, r.oldest, r.due, r.retry, r.held
FROM clock c,
     (SELECT count(*) AS rows, max(promote_at) AS at, (array_agg(id ORDER BY promote_at DESC, id DESC))[1] AS id,
             array_agg(id) FILTER (WHERE free AND NOT plain) AS odd_jobs,
             array_agg(generation) FILTER (WHERE free AND NOT plain) AS odd_generations
      FROM page) p,
     (SELECT min(promote_at) AS oldest, count(*) FILTER (WHERE waiting = 'due') AS due,
             count(*) FILTER (WHERE waiting = 'retry') AS retry, count(*) FILTER (WHERE waiting = 'held') AS held
      FROM promoted) r
