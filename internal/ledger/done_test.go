package ledger_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/migrations"
	"duly.dev/duly/pkg/job"
)

// history is what happened to all jobs, a line an event, in order.
func (b *bench) history(table string) []string {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT (at, id, job, fence, generation, attempt, emission, late, name, from_state, to_state, outcome, class, code,
		wake_at, why, detail, worker, worker_version, classifier, policy_hash, actor, receipt)::text FROM duly.`+table+` ORDER BY job, id`)
	require.NoError(b.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	return all
}

func TestResultsOfAStatementAreOneRowOnItsPage(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	grants := c.ask(c.worker, c.enqueue("many", ledger.EnqueueBatch)...).Grants
	reports := make([]machine.Report, len(grants))
	for i, g := range grants {
		reports[i] = report(g, job.Done(&job.Receipt{ID: fmt.Sprint(g.Row.Job)}))
	}
	settled, err := c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	for _, s := range settled {
		require.Equal(t, job.Delivered, s.State)
	}
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.done WHERE cardinality(jobs) = $1 AND pg_column_compression(jobs) IS NULL AND pg_column_size(jobs) > 8 * $1
		AND (generations, fences, attempts, emissions) IS NULL`, len(grants)))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event`))
	require.Equal(t, len(grants), c.count(`SELECT count(*)::int FROM duly.history h JOIN duly.job j ON j.id = h.job
		WHERE h.receipt ->> 'id' = j.id::text AND h.at = j.ended_at AND h.worker = j.worker
		  AND (h.fence, h.generation, h.attempt, h.emission, h.late, h.name, h.from_state, h.to_state, h.outcome, h.actor, h.worker_version)
		    = (1, 1, 1, 1, false, 'done', 'leased', 'delivered', 'delivered', 'worker', 'v1')`))
	ledgertest.Agrees(t, c.pool)
}

// What is delivered together need not be alike: each of the rules has a row, and each job
// keeps its own numbers.
func TestResultsOfSeveralRulesAreToldApart(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	other := c.kind
	other.Name, other.Policy.Limit = "other", time.Second
	require.NoError(t, c.SyncKinds(t.Context(), []machine.Kind{c.kind, other}))
	again := c.ended("again", job.NotBegun("draining"))
	refs := append(c.enqueue("plain", 2), job.Ref{Job: again.Job, Generation: 1, Emission: 2})
	made, err := c.Enqueue(t.Context(), c.pool, []job.Spec{{Kind: "other", Key: "other", Payload: []byte(`{}`)}})
	require.NoError(t, err)
	grants := c.ask(c.worker, refs...).Grants
	leases, err := c.Lease(t.Context(), machine.LeaseRequest{Worker: c.worker, Kind: other, Refs: []job.Ref{{Job: made[0].Job, Generation: 1, Emission: 1}}})
	require.NoError(t, err)
	grants = append(grants, leases.Grants...)
	var reports []machine.Report
	for i, g := range grants {
		r := report(g, job.Done(nil))
		r.Classifier = []string{"", "c2", "", ""}[i]
		reports = append(reports, r)
	}
	settled, err := c.Settle(t.Context(), c.worker, append(reports, reports[0]))
	require.NoError(t, err)
	require.True(t, settled[4].Late, "the same report again")
	for i, s := range settled {
		require.Equal(t, job.Delivered, s.State, i)
	}
	require.Equal(t, 4, c.count(`SELECT count(*)::int FROM duly.done`), "of what succeeded at once under each of three rules, and of a second lease")
	require.Equal(t, 3, c.count(`SELECT count(*)::int FROM duly.done WHERE (generations, fences, attempts, emissions) IS NULL`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.done WHERE (generations, fences, attempts, emissions) = ('{1}', '{2}', '{1}', '{2}')`))
	for i, r := range reports {
		require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.history WHERE job = $1 AND name = 'done' AND NOT late AND fence = $2 AND emission = $2
			AND classifier IS NOT DISTINCT FROM $3 AND policy_hash = $4`, r.Job, r.Fence, []any{nil, "c2", nil, nil}[i], r.Kind.Hash()), i)
	}
	ledgertest.Agrees(t, c.pool)
}

func TestLateEvidenceComesBehindTheResult(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	first := c.ask(c.worker, c.enqueue("late", 1)...).Grants[0]
	c.settle(first, job.NotBegun("lease lost"))
	c.settle(c.ask(c.worker, job.Ref{Job: first.Row.Job, Generation: 1, Emission: 2}).Grants[0], job.Done(&job.Receipt{Status: "200"}))
	require.True(t, c.settle(first, job.Done(&job.Receipt{Status: "202"})).Late)
	story, err := c.Show(t.Context(), kind, "late-0")
	require.NoError(t, err)
	require.Len(t, story.Events, 5, "two leases and their ends, and the evidence")
	require.Equal(t, machine.Done, story.Events[3].Name)
	require.Equal(t, "200", story.Events[3].Receipt.Status)
	require.False(t, story.Events[3].Late)
	require.Equal(t, "202", story.Events[4].Receipt.Status)
	require.True(t, story.Events[4].Late)
	generation, _ := story.Current()
	require.Equal(t, "200", generation.Receipt.Status, "what was delivered changes no more")
	ledgertest.Agrees(t, c.pool)
}

// Before the migration every result was an event of its own, and so it is again where it is
// taken back.
func TestResultsAreEventsOfTheirJobsBeforeTheMigration(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	c := crewOn(benchOn(t, ledgertest.Pool(t, url)))
	grants := c.ask(c.worker, c.enqueue("done", 3)...).Grants
	for _, g := range grants {
		c.settle(g, job.Done(&job.Receipt{Status: "200"}))
	}
	again := c.ended("again", job.NotBegun("draining"))
	c.settle(c.ask(c.worker, job.Ref{Job: again.Job, Generation: 1, Emission: 2}).Grants[0], job.Done(nil))
	before := c.history("history")
	require.Len(t, before, 5)

	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithTableName("public.duly_migrations"))
	require.NoError(t, err)
	_, err = p.DownTo(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, before, c.history("event"))

	_, err = p.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, c.history("history"))
	days := `SELECT count(*)::int FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::regclass AND c.relname ~ '\d{8}$'`
	require.Equal(t, c.count(days, "duly.event"), c.count(days, "duly.done"))
	c.pool.Reset() // plans that were made before
	c.settle(c.ask(c.worker, c.enqueue("behind", 1)...).Grants[0], job.Done(nil))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.done`))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.done_default`))
	ledgertest.Agrees(t, c.pool)
}
