-- name: redrive_made
-- $1 job, $2 hash of the recovery key. What the key made before: its request, the
-- generations, and where the successor stands; a later generation may follow it. Read
-- with the predecessor's row locked. No locks.
SELECT r.request, r.successor, coalesce(j.state, k.state), j.wake_at
FROM duly.redrive r
     LEFT JOIN duly.job j ON j.id = r.job AND j.generation = r.successor
     LEFT JOIN duly.job_key k ON k.hash = $3
WHERE r.job = $1 AND r.recovery_key = $2

-- name: redrive_may
-- Whether the session's role is an approver: it has the rights of the ledger's owner, or
-- is a member of the role duly_approver where the cluster has one. No locks.
SELECT pg_has_role(current_user, c.relowner, 'USAGE')
       OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = 'duly_approver' AND pg_has_role(current_user, r.oid, 'USAGE'))
FROM pg_class c WHERE c.oid = 'duly.redrive'::regclass

-- name: redrive_append
-- $1 job, $2 predecessor, whose body is copied where no correction is given; $3
-- generation, $4 created, $5 due, $6 deadline, $7 first ready, $8 origin, $9 wake_at,
-- $10 promote_at, $11 expires_at, $12 fence, $13 emission, $14 state, $15 waiting: the
-- successor as decided; $16 destination, $17 payload, both null to keep; $18 whether
-- the deadline is corrected, with $19 its zone and $20 its local time; $21 flags. The
-- predecessor's row is locked by the caller. One row.
INSERT INTO duly.job (id, generation, created_at, due_at, deadline, first_ready_at, origin_at, wake_at, promote_at,
                      expires_at, fence, emission, kind, state, waiting, key, subject, period, destination, payload,
                      deadline_zone, deadline_local, trace_parent, flags)
SELECT p.id, $3, $4, $5, $6, $7, $8, $9, $10,
       $11, $12, $13, p.kind, $14, $15, p.key, p.subject, p.period, coalesce($16, p.destination), coalesce($17, p.payload),
       CASE WHEN $18::boolean THEN $19 ELSE p.deadline_zone END, CASE WHEN $18 THEN $20 ELSE p.deadline_local END, p.trace_parent, $21
FROM duly.job p WHERE p.id = $1 AND p.generation = $2

-- name: redrive_put
-- $1 job, $2 hash of the recovery key, $3 the key as given, $4 predecessor, $5
-- successor, $6 hash of the request, $7 approver, $8 actor, $9 reason, $10 forced, $11
-- evidence: the decision. Unique per recovery key and per predecessor.
INSERT INTO duly.redrive (job, recovery_key, key_given, predecessor, successor, request, approver, actor, reason, forced, evidence)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
