package compose_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

const declared = "kinds:\n  greeting: {channel: go, promises: {lookup: {go: {}}}}\n"

func working(context.Context, handler.Question) (handler.Answer, error) {
	return handler.StillWorking(), nil
}

func TestALookupBesideAHandlerIsDeclaredAndWhatIsDeclaredIsThere(t *testing.T) {
	t.Parallel()
	both := map[string]handler.Handler{"greeting": handler.WithLookup(nop, working)}
	s := service(t, &bytes.Buffer{})
	require.NoError(t, compose.Worker(s, config(t, declared), parts(both)))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, s.Group.Run(ctx))

	err := compose.Worker(service(t, &bytes.Buffer{}), config(t, declared), parts(map[string]handler.Handler{"greeting": nop}))
	require.ErrorContains(t, err, "there is no lookup beside the kind's handler")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
	err = compose.Worker(service(t, &bytes.Buffer{}), config(t, "kinds:\n  greeting: {channel: go}\n"), parts(both))
	require.ErrorContains(t, err, "does not declare it")
	require.Equal(t, app.ExitUsage, app.ExitCode(err))
}

// doubtful makes a job of the kind whose outcome is unknown.
func doubtful(t *testing.T, l *ledger.Ledger, c *app.Config, kind, key string) {
	t.Helper()
	k, ok := c.Kind(kind)
	require.True(t, ok)
	w := machine.Worker{ID: uuid.NewString(), Label: "test", Version: "v1", LeaseTime: 30 * time.Second}
	require.NoError(t, l.RegisterWorker(t.Context(), w))
	leases, err := l.Lease(t.Context(), machine.LeaseRequest{Worker: w, Kind: k.Kind, Refs: []job.Ref{{Job: jobOf(t, l, kind, key), Generation: 1, Emission: 1}}})
	require.NoError(t, err)
	require.Len(t, leases.Grants, 1)
	g := leases.Grants[0]
	_, err = l.Settle(t.Context(), w, []machine.Report{{
		Attempt: machine.Attempt{Job: g.Row.Job, Generation: 1, Fence: g.Row.Fence}, Result: job.MayBeDone(job.CodeTimeout, "no answer"), Kind: &k.Kind,
	}})
	require.NoError(t, err)
}

func jobOf(t *testing.T, l *ledger.Ledger, kind, key string) int64 {
	t.Helper()
	story, err := l.Find(t.Context(), kind, key)
	require.NoError(t, err)
	return story.Job
}

// A scheduler asks by SQL: the ledger's own database, and another one that a secret names.
func TestASchedulerAsksDatabases(t *testing.T) {
	url, other := ledgertest.URL(t), ledgertest.URL(t)
	pool, elsewhere := ledgertest.Pool(t, url), ledgertest.Pool(t, other)
	const table = `CREATE TABLE public.sent (effect_key text PRIMARY KEY, id text)`
	for p, key := range map[*pgxpool.Pool]string{pool: "own/a:1:go", elsewhere: "far/a:1:go"} {
		_, err := p.Exec(t.Context(), table)
		require.NoError(t, err)
		_, err = p.Exec(t.Context(), `INSERT INTO public.sent VALUES ($1, 'm-1')`, key)
		require.NoError(t, err)
	}
	t.Setenv("DULY_TEST_DSN", other)
	c := config(t, `
kinds:
  own: &kind
    channel: go
    base: 10ms
    cap: 100ms
    promises: {settle: 10ms, lookup: {sql: {statement: "SELECT true AS happened, id AS receipt FROM public.sent WHERE effect_key = $1"}}}
  far:
    <<: *kind
    promises: {settle: 10ms, lookup: {sql: {dsn: {env: DULY_TEST_DSN}, statement: "SELECT true AS happened, id AS receipt FROM public.sent WHERE effect_key = $1"}}}
`)
	l := ledger.New(pool)
	s := service(t, &bytes.Buffer{})
	require.NoError(t, compose.Scheduler(t.Context(), s, c, l))
	_, err := l.Enqueue(t.Context(), pool, []job.Spec{{Kind: "own", Key: "a", Payload: []byte(`{}`)}, {Kind: "far", Key: "a", Payload: []byte(`{}`)}})
	require.NoError(t, err)
	doubtful(t, l, c, "own", "a")
	doubtful(t, l, c, "far", "a")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Group.Run(ctx) }()
	require.Eventually(t, func() bool {
		tally, err := l.Tally(t.Context())
		return err == nil && tally[job.Delivered] == 2
	}, time.Minute, 20*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	ledgertest.Agrees(t, pool)
}

func TestASecretThatCannotBeReadEndsTheScheduler(t *testing.T) {
	t.Setenv("DULY_TEST_ODD", "postgres://u:hunter2@%zz/")
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	for text, want := range map[string]string{
		`{dsn: {env: DULY_TEST_MISSING}, statement: "SELECT true AS happened, '' AS receipt WHERE $1 = ''"}`: "DULY_TEST_MISSING is not set",
		`{dsn: {env: DULY_TEST_ODD}, statement: "SELECT true AS happened, '' AS receipt WHERE $1 = ''"}`:     "no connection string",
	} {
		c := config(t, "kinds:\n  own: {channel: go, promises: {lookup: {sql: "+text+"}}}\n")
		err := compose.Scheduler(t.Context(), service(t, &bytes.Buffer{}), c, ledger.New(pool))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hunter2")
		require.Equal(t, app.ExitUsage, app.ExitCode(err))
	}
}
