package compose_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

func nowhere(_ context.Context, jobs []handler.Addressee) ([]string, error) {
	return make([]string, len(jobs)), nil
}

func TestAResolveBesideAHandlerIsDeclaredAndWhatIsDeclaredIsThere(t *testing.T) {
	t.Parallel()
	const declared = "kinds:\n  greeting: {channel: go, resolve: {go: {}}}\n"
	both := map[string]handler.Handler{"greeting": handler.WithResolve(nop, nowhere)}
	s := service(t, &bytes.Buffer{})
	require.NoError(t, compose.Worker(s, config(t, declared), parts(both)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, s.Group.Run(ctx))

	err := compose.Worker(service(t, &bytes.Buffer{}), config(t, declared), parts(map[string]handler.Handler{"greeting": nop}))
	require.ErrorContains(t, err, "there is no resolve beside the kind's handler")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
	err = compose.Worker(service(t, &bytes.Buffer{}), config(t, "kinds:\n  greeting: {channel: go}\n"), parts(both))
	require.ErrorContains(t, err, "does not declare it")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}

// lateRig is a worker with a handler, whose kind's destinations are asked for in a database,
// on a real ledger.
type lateRig struct {
	t      *testing.T
	pool   *pgxpool.Pool
	ledger *ledger.Ledger
	log    *said
	sent   chan string
}

func lateOn(t *testing.T, text string) *lateRig {
	t.Helper()
	r := &lateRig{t: t, pool: ledgertest.New(t), log: &said{}, sent: make(chan string, 10)}
	r.ledger = ledger.New(r.pool)
	c := config(t, text)
	require.NoError(t, r.ledger.SyncKinds(t.Context(), c.Kinds()))
	s := service(t, r.log)
	bus := membus.New()
	require.NoError(t, bus.Ensure(t.Context(), c.LaneNames()))
	buses := compose.Buses{Bus: bus, Address: "memory"}
	handlers := map[string]handler.Handler{"greeting": handler.Func(func(ctx context.Context, j handler.Job) error {
		handler.Receipt(ctx, "m-1")
		r.sent <- j.Destination
		return nil
	})}
	require.NoError(t, compose.Dispatcher(s, c, r.ledger, buses))
	require.NoError(t, compose.Worker(s, c, compose.WorkerParts{
		Ledger: r.ledger, Heart: r.ledger.Heart(r.pool), Buses: buses, Handlers: handlers, Asking: r.ledger, Resolving: r.ledger,
	}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Group.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, bus.Close())
	})
	return r
}

// ends makes a job and returns how it ended, or that it waits for another try.
func (r *lateRig) ends(key string) machine.Generation {
	r.t.Helper()
	made, err := r.ledger.Enqueue(r.t.Context(), r.pool, []job.Spec{{Kind: "greeting", Key: key, Subject: "customer " + key, Payload: []byte(`1`)}})
	require.NoError(r.t, err)
	require.NoError(r.t, made[0].Refused)
	var g machine.Generation
	require.Eventually(r.t, func() bool {
		story, err := r.ledger.Find(r.t.Context(), "greeting", key)
		require.NoError(r.t, err)
		g, _ = story.Current()
		return !g.State.Pending() || g.Waiting == job.WaitingRetry
	}, time.Minute, 10*time.Millisecond)
	return g
}

// On a real ledger: each thing that a query may do ends its job, or has it tried again, and
// never leaves a doubt.
func TestAQuerySaysWhereEffectsGo(t *testing.T) {
	t.Parallel()
	url := ledgertest.URL(t)
	crm := ledgertest.Pool(t, url)
	file := filepath.Join(t.TempDir(), "crm")
	require.NoError(t, os.WriteFile(file, []byte(url), 0o600))
	exec := func(sql string) {
		_, err := crm.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`CREATE TABLE public.customer (name text, mail text)`)
	exec(`INSERT INTO public.customer VALUES ('customer moved', 'new@example.com'), ('customer null', NULL), ('customer twice', 'a'), ('customer twice', 'b')`)
	r := lateOn(t, `
sources: {crm: {file: `+file+`}}
kinds:
  greeting:
    channel: go
    base: 1h
    cap: 1h
    resolve:
      timeout: 2s
      sql:
        source: crm
        statement: SELECT a.key, c.mail AS destination FROM unnest($1::text[], $2::text[]) AS a (key, subject) JOIN customer c ON c.name = a.subject
`)
	g := r.ends("moved")
	require.Equal(t, job.Delivered, g.State)
	require.Equal(t, "new@example.com", <-r.sent)
	require.Equal(t, job.ToHash("greeting/moved:1:go", "new@example.com"), g.Receipt.To)
	for key, detail := range map[string]string{"nobody": "no row for it", "null": "a row without a destination", "twice": "2 rows for it"} {
		g := r.ends(key)
		require.Equal(t, []any{job.Quarantined, job.CodeDestinationInvalid, job.ReasonPermanent}, []any{g.State, g.LastCode, g.Reason}, key)
		require.Contains(t, g.Detail, detail)
	}
	exec(`ALTER TABLE public.customer RENAME mail TO address`)
	g = r.ends("broken")
	require.Equal(t, []any{job.Scheduled, job.CodeMisconfigured, false}, []any{g.State, g.LastCode, g.InDoubt()})
	exec(`ALTER TABLE public.customer RENAME address TO mail`)

	lock, err := crm.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `LOCK TABLE public.customer`)
	require.NoError(t, err)
	g = r.ends("slow")
	require.Equal(t, []any{job.Scheduled, job.CodeTimeout, false}, []any{g.State, g.LastCode, g.InDoubt()})
	require.NoError(t, lock.Rollback(t.Context()))
	require.Empty(t, r.sent)
	ledgertest.Agrees(t, r.pool)
}

// A statement that can never work is told when the worker starts, which works on.
func TestAQueryThatCanNeverWorkIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	r := lateOn(t, "kinds:\n  greeting: {channel: go, resolve: {sql: {statement: 'SELECT k AS key, mail AS destination FROM nowhere, unnest($1::text[]) AS k'}}}\n")
	g := r.ends("any")
	require.Equal(t, []any{job.Scheduled, job.CodeMisconfigured}, []any{g.State, g.LastCode})
	require.Eventually(t, func() bool { return strings.Contains(r.log.String(), "this kind waits until this is repaired") }, time.Minute, 10*time.Millisecond)
}

// A source that cannot be named is refused at the start, without what its secret says.
func TestASourceThatCannotBeReadIsRefused(t *testing.T) {
	t.Setenv("DULY_TEST_CRM", "postgres://u:hunter2@%zz/")
	for source, want := range map[string]string{"DULY_TEST_CRM": "sources.crm: it must be a PostgreSQL connection string", "DULY_TEST_NONE": "DULY_TEST_NONE is not set"} {
		c := config(t, "sources: {crm: {env: "+source+"}}\nkinds:\n  greeting: {channel: http, resolve: {sql: {source: crm, statement: 'SELECT k AS key, k AS destination FROM unnest($1::text[]) AS k'}}}\n")
		err := compose.Worker(service(t, &bytes.Buffer{}), c, parts(nil))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		require.Equal(t, app.ExitUsage, app.ExitCode(err))
	}
}
