package compose_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/job"
)

// said is a log that is read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// running runs a service's loops until the test ends.
func running(t *testing.T, s *app.Service) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Group.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
}

// A database of one kind that is away, and statements that a server would not take, stop
// their kinds alone, and only until somebody repairs it.
func TestWhatOneKindNeedsStopsNothingElse(t *testing.T) {
	t.Setenv("DULY_TEST_AWAY", "postgres://nobody@127.0.0.1:1/nowhere")
	pool := ledgertest.New(t)
	l := ledger.New(pool)
	c := config(t, `
kinds:
  away: &kind
    channel: go
    base: 10ms
    cap: 100ms
    promises: {settle: 10ms, lookup: {sql: {dsn: {env: DULY_TEST_AWAY}, statement: "SELECT true AS happened, '' AS receipt WHERE $1 <> ''"}}}
  odd:
    <<: *kind
    promises: {settle: 10ms, lookup: {sql: {statement: "SELECT true AS happened, id AS receipt FROM public.later WHERE effect_key = $1"}}}
  tidied: {channel: http, cleanup: {statement: "DELETE FROM public.drafts WHERE operation_key = $1"}}
  plain: {channel: go}
`)
	var log said
	s := service(t, &log)
	starting, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, compose.Scheduler(starting, s, c, l))
	running(t, s)
	_, err := l.Enqueue(t.Context(), pool, []job.Spec{
		{Kind: "plain", Key: "a", Payload: []byte(`{}`), Due: time.Now().Add(time.Second)}, {Kind: "odd", Key: "a", Payload: []byte(`{}`)},
	})
	require.NoError(t, err)
	doubtful(t, l, c, "odd", "a")
	require.Eventually(t, func() bool {
		tally, err := l.Tally(t.Context())
		return err == nil && tally[job.Ready] == 1
	}, time.Minute, 20*time.Millisecond, "what is due is promoted")
	for _, kind := range []string{"away", "odd", "tidied"} {
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "kind="+kind) }, time.Minute, 20*time.Millisecond, kind)
	}
	_, err = pool.Exec(t.Context(), `CREATE TABLE public.later AS SELECT 'odd/a:1:go' AS effect_key, 'm-1' AS id`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		tally, err := l.Tally(t.Context())
		return err == nil && tally[job.Delivered] == 1
	}, 2*time.Minute, 20*time.Millisecond, "and what was repaired goes on by itself")
}
