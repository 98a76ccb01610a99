package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

// generation is what the ledger says about one generation of a job, read by a
// statement of the tests' own.
type generation struct {
	Job                int64
	Kind, Key          string
	Generation         int32
	Current            bool
	State              job.State
	Attempt            int32
	Receipt            bool
	Leases, HandedBack int32
	// Delivered counts the transitions into delivered.
	Delivered int32
}

const selectGenerations = `
WITH leases AS (
    SELECT u.job, u.generation, count(*) AS n
    FROM duly.lease l, unnest(l.jobs, l.generations) u (job, generation) GROUP BY u.job, u.generation
), events AS (
    SELECT job, generation,
           count(*) FILTER (WHERE name = 'handed_back' AND from_state = 'leased' AND NOT late) AS handed_back,
           count(*) FILTER (WHERE to_state = 'delivered' AND from_state <> 'delivered') AS delivered
    FROM duly.history GROUP BY job, generation
)
SELECT j.id, k.name, j.key, j.generation, j.successor IS NULL, j.state, j.attempt, j.receipt IS NOT NULL,
       coalesce(l.n, 0), coalesce(e.handed_back, 0), coalesce(e.delivered, 0)
FROM duly.job j JOIN duly.kind k ON k.id = j.kind
     LEFT JOIN leases l ON l.job = j.id AND l.generation = j.generation
     LEFT JOIN events e ON e.job = j.id AND e.generation = j.generation
ORDER BY j.id, j.generation`

// generations reads every generation.
func (r *rig) generations() []generation {
	r.t.Helper()
	rows, err := r.pool.Query(context.Background(), selectGenerations)
	require.NoError(r.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[generation])
	require.NoError(r.t, err)
	return all
}

// effectKey is what receivers count the generation under.
func (g generation) effectKey() string {
	if g.Kind == mailed {
		return smtpchan.Identity(job.WireEffectKey(g.Kind, g.Key, g.Generation, "smtp"))
	}
	return job.WireEffectKey(g.Kind, g.Key, g.Generation, "http")
}

func (g generation) String() string {
	return fmt.Sprintf("%s/%s generation %d: %s after %d attempts", g.Kind, g.Key, g.Generation, g.State, g.Attempt)
}

// state returns where a job's current generation stands.
func (r *rig) state(kind, key string) job.State {
	r.t.Helper()
	var state job.State
	err := r.pool.QueryRow(context.Background(), `SELECT j.state FROM duly.job j JOIN duly.kind k ON k.id = j.kind
		WHERE k.name = $1 AND j.key = $2 AND j.successor IS NULL`, kind, key).Scan(&state)
	require.NoError(r.t, err)
	return state
}

// attempts returns how many attempts a job's current generation has had.
func (r *rig) attempts(kind, key string) (n int32) {
	r.t.Helper()
	err := r.pool.QueryRow(context.Background(), `SELECT j.attempt FROM duly.job j JOIN duly.kind k ON k.id = j.kind
		WHERE k.name = $1 AND j.key = $2 AND j.successor IS NULL`, kind, key).Scan(&n)
	require.NoError(r.t, err)
	return n
}

// states counts jobs by state. It is nil while the ledger does not answer.
func (r *rig) states() map[job.State]int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	counted, err := r.ledger.Tally(ctx)
	if err != nil {
		return nil
	}
	return counted
}

// in reports whether exactly n jobs stand in the state.
func (r *rig) in(state job.State, n int) func() bool {
	return func() bool { return r.states()[state] == n }
}

// settled reports whether the machine has nothing more to do for any job.
func (r *rig) settled() bool {
	states := r.states()
	for state := range states {
		if state.Pending() {
			return false
		}
	}
	return states != nil
}

// account waits until every job has ended and compares the ledger with what the
// receivers saw: what must hold after every test. It returns the counts by state.
func (r *rig) account() map[job.State]int {
	r.t.Helper()
	r.await("every job ends", r.settled)
	all := r.generations()
	r.everyJobOnce(all)
	for _, g := range all {
		r.oneEffect(g)
		require.Equal(r.t, g.Attempt, g.Leases-g.HandedBack, "%s: attempts are the leases that were not handed back: %+v", g, struct{ Leases, HandedBack int32 }{g.Leases, g.HandedBack})
	}
	r.nothingBesides(all)
	ledgertest.Agrees(r.t, r.pool)
	r.explained(all)
	r.private()
	return r.states()
}

// everyJobOnce is G2: what was accepted is in exactly one state, and nothing else is.
func (r *rig) everyJobOnce(all []generation) {
	r.t.Helper()
	current := map[string]int{}
	for _, g := range all {
		if g.Current {
			current[g.Kind+"/"+g.Key]++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.accepted {
		require.Equal(r.t, 1, current[name], "G2: %s was accepted and must be in one state", name)
	}
	require.Len(r.t, current, len(r.accepted), "what is in the ledger was accepted")
}

// oneEffect is G1 and G8: what the state says is what the receivers saw.
func (r *rig) oneEffect(g generation) {
	r.t.Helper()
	receiver := &r.web.tally
	if g.Kind == mailed {
		receiver = &r.mail.tally
	}
	asked, effects := receiver.count(g.effectKey())
	require.LessOrEqual(r.t, effects, 1, "G1: %s: %d requests", g, asked)
	require.LessOrEqual(r.t, g.Delivered, int32(1), "%s: it is delivered once", g)
	switch g.State {
	case job.Delivered:
		require.Equal(r.t, 1, effects, "G1: %s: what is delivered has happened", g)
		require.True(r.t, g.Receipt, "G1: %s: it is delivered on a receipt", g)
	case job.Quarantined, job.Cancelled:
		require.Zero(r.t, effects, "G8: %s: it has not happened", g)
	case job.Unknown:
		require.Positive(r.t, g.Attempt, "%s: something was tried", g)
	case job.Scheduled, job.Ready, job.Leased:
		require.Fail(r.t, "it has not ended", "%s", g)
	}
}

// nothingBesides requires that the receivers saw what is in the ledger, always with the
// same bytes and credentials, and nothing else.
func (r *rig) nothingBesides(all []generation) {
	r.t.Helper()
	known := map[string]bool{}
	for _, g := range all {
		known[g.effectKey()] = true
	}
	for _, receiver := range []*tally{&r.web.tally, &r.mail.tally} {
		receiver.mu.Lock()
		for key := range receiver.asked {
			require.True(r.t, known[key], "the receiver was asked for %s, which is not in the ledger", key)
			require.Len(r.t, receiver.bodies[key], 1, "%s was sent with the same bytes each time", key)
		}
		require.Empty(r.t, receiver.wrong)
		receiver.mu.Unlock()
	}
}

// private is G13, as far as it can be seen at the end.
func (r *rig) private() {
	r.t.Helper()
	secrets := r.secrets()
	for name, log := range r.logs() {
		requirePrivate(r.t, "the log of "+name, log, secrets)
	}
	r.mu.Lock()
	processes := r.processes
	r.mu.Unlock()
	for _, p := range processes {
		if _, metrics := p.admin("/metrics"); p.running() {
			requirePrivate(r.t, "the metrics of "+p.name, metrics, secrets)
		}
	}
	requirePrivate(r.t, "the bus", r.tap.String(), secrets)
	for _, table := range []string{"outbox", "event", "lease", "quarantine", "unknown", "reject", "audit", "mark", "unsendable"} {
		var content string
		err := r.pool.QueryRow(context.Background(), "SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM duly."+table+" t").Scan(&content)
		require.NoError(r.t, err)
		requirePrivate(r.t, "duly."+table, content, secrets)
	}
}

// secrets are what may be written down nowhere but in the job itself.
func (r *rig) secrets() map[string]string {
	r.t.Helper()
	parsed, err := pgx.ParseConfig(r.database)
	require.NoError(r.t, err)
	return map[string]string{
		"a payload": payloadMarker, "a destination": destinationMarker, "the credential of the receiver": strings.TrimPrefix(authorization, "Bearer "),
		"the credential of the mailbox": mailPassword, "the password of the ledger": parsed.Password,
	}
}

func requirePrivate(t require.TestingT, where, content string, secrets map[string]string) {
	for what, secret := range secrets {
		if at := strings.Index(content, secret); at >= 0 {
			require.Fail(t, "G13: "+where+" shows "+what, "…%s…", content[max(0, at-300):min(len(content), at+len(secret)+100)])
		}
	}
}
