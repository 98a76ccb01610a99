package ledger_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger/ledgertest"
)

// planned is a statement that loops or workers run over and over, with the settings that
// go before it (none: the server's own) and arguments of their kind.
type planned struct {
	lead, name string
	args       []any
}

// plannedStatements are those that look into tables which grow with jobs.
func (c *crew) plannedStatements(jobs []int64) []planned {
	n := len(jobs)
	ones, fences := make([]int32, n), make([]int64, n)
	for i := range jobs {
		ones[i], fences[i] = 1, 1
	}
	old, day := time.Now().Add(-24*time.Hour), 24*time.Hour
	keyed := []any{jobs, ones, ones, c.worker.ID, int16(1), "10 s", "30 s", int16(1), "hash"}
	settled := []any{jobs, ones, fences, make([][]byte, n), ones, c.worker.ID, "v1", []string{"c"}, []string{"h"}}
	gates := []any{jobs, ones, make([]*time.Time, n), slices.Repeat([]string{"sql"}, n), make([]bool, n), make([]time.Duration, n), make([]time.Duration, n)}
	hashes := make([]string, n)
	for i := range hashes {
		hashes[i] = c.worker.ID
	}
	return []planned{
		{"keyed", "lease_refs", keyed},
		{"keyed", "settle_done", settled},
		{"keyed", "hold_ready", []any{jobs, ones, ones, "paused", "10 s"}},
		{"hot", "decide_lock", []any{jobs, ones}},
		{"hot", "promote_page", []any{old, int64(0), 400, []int16{1}, []time.Duration{day}, []time.Duration{day}, []string{"h"}}},
		{"hot", "expire_page", []any{old, int64(0), 2000}},
		{"hot", "leases_over", []any{old, 5 * time.Second, 100}},
		{"hot", "patrol_page", []any{int64(0), 2000}},
		{"hot", "patrol_rows", []any{jobs[0], jobs[n-1], day, 10 * time.Second}},
		{"hot", "remove_jobs", []any{jobs, hashes, day}},
		{"seek", "expire_page", []any{old, int64(0), 1}},
		{"seek", "leases_over", []any{old, 5 * time.Second, 1}},
		{"seek", "leases_of", []any{c.worker.ID, old, 50 * time.Second, 100}},
		{"seek", "closing_page", []any{500}},
		{"hot", "ask_due", []any{int16(1), "http", 8}},
		{"hot", "resolved_put", []any{jobs, ones, fences, make([]string, n), make([]string, n), c.worker.ID}},
		{"keyed", "cleanup_put", gates},
		{"hot", "cleanup_put", gates},
		{"hot", "cleanup_retire", []any{jobs}},
		{"hot", "cleanup_take", []any{int16(1), "sql", 20, "30 s", 20}},
		{"hot", "cleanup_mine", []any{jobs, ones, ones}},
		{"hot", "cleanup_back", []any{jobs, ones, ones}},
		{"hot", "cleanup_done", []any{jobs, ones, ones, fences}},
		{"hot", "cleanup_failed", []any{jobs, ones, ones, make([]string, n), make([]*time.Time, n)}},
		{"seek", "cleanup_figures", []any{10_000, 10 * time.Minute}},
		{"seek", "figures", []any{10_000}},
		{"seek", "figures_lease", []any{100}},
		{"seek", "judge_lost", []any{jobs, ones, ones, jobs}},
		{"seek", "outbox_between", []any{lane, "100:200:150", "150:300:250", "0", int64(0), 100}},
		{"seek", "outbox_depth", []any{lane, 100}},
	}
}

// fill makes a ledger large without a worker: n finished jobs, with leases and results.
func (c *crew) fill(n int) {
	//nolint:dupword // the same value in several columns
	c.exec(`INSERT INTO duly.job (id, created_at, due_at, first_ready_at, origin_at, expires_at, leased_at, ended_at, lease_limit,
			fence, attempt, emission, kind, terms, flags, worker, state, key, payload)
		SELECT 1000000 + n, t.at, t.at, t.at, t.at, t.at + interval '1 day', t.at, t.at, '10 s', 1, 1, 1, k.id, 1, 8, $2, 'delivered', n::text, '{}'
		FROM duly.kind k, generate_series(1, $1::int) n, LATERAL (SELECT now() - n * interval '1 s' AS at) t`, n, c.worker.ID)
	c.exec(`INSERT INTO duly.job_key (hash, body, job) SELECT md5(id::text)::uuid, md5(key)::uuid, id FROM duly.job WHERE id > 1000000`)
	//nolint:dupword // the same value in several columns
	c.exec(`INSERT INTO duly.lease (at, ends_at, worker, kind, policy_hash, jobs, generations, fences, attempts)
		SELECT leased_at, leased_at + interval '40 s', worker, kind, 'h', ARRAY[id], ARRAY[1], ARRAY[1], ARRAY[1] FROM duly.job WHERE id > 1000000`)
	c.exec(`INSERT INTO duly.done (at, worker, worker_version, policy_hash, jobs) SELECT ended_at, worker, 'v', 'h', ARRAY[id] FROM duly.job WHERE id > 1000000`)
	c.exec(`INSERT INTO duly.event (job, fence, generation, attempt, emission, name, from_state, to_state)
		SELECT id, 0, 1, 0, 1, 'due', 'scheduled', 'ready' FROM duly.job WHERE id > 1000000`)
	c.exec(`INSERT INTO duly.cleanup (job, generation, kind, by, accepted, due_at, done_at) SELECT id, 1, kind, 'sql', true, ended_at, ended_at FROM duly.job WHERE id > 1000000`)
	c.exec(`INSERT INTO duly.outbox (topic, kind, jobs, generations, emissions) SELECT $1, kind, ARRAY[id], ARRAY[1], ARRAY[1] FROM duly.job WHERE id > 1000000`, lane)
}

// grown are the tables that grow with jobs, whatever partition of them.
var grown = regexp.MustCompile(`^(job|job_key|event|lease|done|outbox|cleanup)(_\d+|_default|_left)?$`)

// No loop reads a table that grows with jobs from its beginning to its end: neither by a
// plan that was made, and kept, while everything was empty, nor on a large ledger.
func TestNoLoopReadsALargeTableWhole(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*crew){
		"young":    func(*crew) {},
		"analysed": func(c *crew) { c.exec(`ANALYZE`) },
		"large":    func(c *crew) { c.fill(20_000); c.exec(`ANALYZE`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			prepare(c)
			for _, p := range c.plannedStatements([]int64{1000001, 1000002, 1000003}) {
				_, plan := c.explain(p, "FORMAT JSON")
				walk(plan.Plan, func(n node) {
					first := p.name == "figures" && strings.HasSuffix(n.Name, "_default") // only so many rows of it
					if grown.MatchString(n.Name) && !first {
						require.NotEqual(t, "Seq Scan", n.Type, "%s reads %s", p.name, n.Name)
					}
				})
			}
		})
	}
}

// explained is a plan, and what was compiled for it.
type explained struct {
	Plan node
	JIT  json.RawMessage
}

// explain asks for the plan of a statement as it is run.
func (c *crew) explain(p planned, options string) (string, explained) {
	c.t.Helper()
	tx, err := c.pool.Begin(c.t.Context())
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, tx.Rollback(context.WithoutCancel(c.t.Context()))) }()
	if p.lead != "" {
		_, err = tx.Exec(c.t.Context(), c.Statement(p.lead))
		require.NoError(c.t, err)
	}
	var text []byte
	err = tx.QueryRow(c.t.Context(), "EXPLAIN ("+options+") "+c.Statement(p.name), p.args...).Scan(&text)
	require.NoError(c.t, err, p.name)
	var plans []explained
	require.NoError(c.t, json.Unmarshal(text, &plans))
	return string(text), plans[0]
}

func walk(n node, visit func(node)) {
	visit(n)
	for _, p := range n.Plans {
		walk(p, visit)
	}
}

// A server's own default is to compile what looks dear. A plan that avoids what is
// switched off looks so, and its compilation takes longer than a batch by far.
func TestNothingIsCompiled(t *testing.T) {
	t.Parallel()
	c := crewOn(benchOn(t, eager(t)))
	c.fill(20_000)
	c.exec(`ANALYZE`)
	jobs := make([]int64, 300)
	for i := range jobs {
		jobs[i] = int64(1000001 + i)
	}
	for _, p := range c.plannedStatements(jobs) {
		text, plan := c.explain(p, "ANALYZE, FORMAT JSON")
		require.Empty(t, plan.JIT, "%s was compiled: %s", p.name, text)
	}

	// That compilation would be seen.
	var available bool
	require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT pg_jit_available()").Scan(&available))
	_, plan := c.explain(planned{"", "tally", nil}, "ANALYZE, FORMAT JSON")
	require.Equal(t, available, len(plan.JIT) > 0, "what goes without settings of its own is compiled where the server can")
}

// eager is a pool on a ledger of which every session compiles whatever it may.
func eager(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(ledgertest.URL(t))
	require.NoError(t, err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SET jit = on; SET jit_above_cost = 0")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}
