-- name: show_generations
-- $1 job, $2 whether only the current one: its generations, the oldest first, with
-- what the lists of quarantined and unknown outcomes say of them. No locks.
SELECT j.id, j.generation, j.kind, j.state, j.waiting, j.hold, j.reason, j.attempt, j.unclassified,
       j.fence, j.emission, j.created_at, j.origin_at, j.first_ready_at, j.due_at, j.deadline, j.wake_at,
       j.worker, j.leased_at, j.lease_limit, j.doubt_since, j.doubt_until, j.terms, j.flags, j.successor,
       j.last_class, j.last_code,
       j.subject, j.period, j.destination, j.deadline_zone, j.deadline_local, j.payload, j.ended_at, j.receipt,
       coalesce(q.detail, u.detail), coalesce(q.fingerprint, u.fingerprint),
       u.lookup, u.asked, u.ask_at, u.said, u.asked_at, u.said_detail, r.address, r.by, r.fence, r.at
FROM duly.job j
     LEFT JOIN duly.resolved r ON r.job = j.id AND r.generation = j.generation
     LEFT JOIN duly.quarantine q ON q.job = j.id AND q.generation = j.generation
     LEFT JOIN duly.unknown u ON u.job = j.id AND u.generation = j.generation
WHERE j.id = $1 AND (NOT $2 OR j.successor IS NULL)
ORDER BY j.generation

-- name: show_events
-- $1 job, $2 the most: its newest events, the newest first. No locks.
SELECT at, generation, name, from_state, to_state, attempt, fence, emission, outcome, class, code, wake_at, why, detail,
       worker, actor, receipt, late, worker_version, classifier, policy_hash
FROM duly.history WHERE job = $1 ORDER BY id DESC LIMIT $2

-- name: show_leases
-- $1 job; $2 workers, $3 and $4 between which instants each leased it: the lease rows
-- that name the job, as the job's own, in order. No locks.
SELECT DISTINCT ON (u.fence) l.at, l.ends_at, l.worker, l.policy_hash, u.generation, u.fence, u.attempt, w.version
FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) AS t (worker, since, until)
     JOIN duly.lease l ON l.worker = t.worker AND l.at BETWEEN t.since AND t.until AND $1::bigint = ANY (l.jobs)
     CROSS JOIN LATERAL unnest(l.jobs, l.generations, l.fences, l.attempts) AS u (job, generation, fence, attempt)
     LEFT JOIN duly.worker w ON w.id = l.worker
WHERE u.job = $1
ORDER BY u.fence

-- name: show_redrives
-- $1 job: the decisions that opened its generations, the oldest first. No locks.
SELECT at, key_given, approver, actor, reason, predecessor, successor, forced, coalesce(evidence, '')
FROM duly.redrive WHERE job = $1 ORDER BY successor

-- name: show_unsendable
-- $1 job: what of it is set aside, which is a small table. No locks.
SELECT outbox_id, topic, kind, jobs, generations, emissions, tries, since, next_at, error
FROM duly.unsendable WHERE $1 = ANY (jobs) ORDER BY outbox_id
