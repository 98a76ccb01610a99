package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/bus/natsbus"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/pkg/handler"
	"duly.dev/duly/pkg/job"
	"duly.dev/duly/pkg/worker"
)

func TestMain(m *testing.M) { ledgertest.Main(m) }

// greeted takes what the example greets.
var greeted = make(chan string, 100)

func greet(_ context.Context, effectKey, destination string, _ []byte) (string, error) {
	greeted <- effectKey + " at " + destination
	return "msg-1", nil
}

const config = `
kinds:
  greeting:
    channel: go
    base: 100ms
    cap: 1s
  call:
    channel: http
  wave:
    lane: waves
    channel: go
    base: 100ms
    cap: 1s
    promises: {settle: 100ms, lookup: {go: {}}}
  draft:
    lane: drafts
    channel: go
    base: 100ms
    cap: 1s
    cleanup: {go: {}}
lanes:
  waves: {}
  drafts: {}
worker: {pause_bound: 500ms}
`

// installation is a ledger, a bus and a dispatcher between them.
type installation struct {
	enqueue func(specs ...job.Spec)
	worker  worker.Config
	is      func(key string, state job.State) bool
	// waved is the same for jobs of the kind wave.
	waved func(key string, state job.State) bool
}

func install(t *testing.T) *installation {
	t.Helper()
	nats, err := devstack.StartNATS(devstack.NATSOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, nats.Stop()) })
	url := ledgertest.URL(t)
	pool := ledgertest.Pool(t, url)
	l := ledger.New(pool)
	file := filepath.Join(t.TempDir(), "duly.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	parsed, err := app.LoadConfig(file)
	require.NoError(t, err)
	require.NoError(t, l.SyncKinds(t.Context(), parsed.Kinds()))

	b, err := natsbus.Connect(t.Context(), nats.URL(), natsbus.Options{})
	require.NoError(t, err)
	require.NoError(t, b.Ensure(t.Context(), parsed.LaneNames()))
	d, err := dispatch.New(dispatch.Options{Ledger: l, Bus: b, Pack: func(string) int { return 32 }})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, b.Close())
		ledgertest.Agrees(t, pool)
	})
	is := func(kind string) func(string, job.State) bool {
		return func(key string, state job.State) bool {
			story, err := l.Show(t.Context(), kind, key)
			now, ok := story.Current()
			return err == nil && ok && now.State == state
		}
	}
	return &installation{
		worker: worker.Config{DatabaseURL: url, BusURL: nats.URL(), File: file, Log: slog.New(slog.DiscardHandler)},
		enqueue: func(specs ...job.Spec) {
			t.Helper()
			_, err := l.Enqueue(t.Context(), pool, specs)
			require.NoError(t, err)
		},
		is: is("greeting"), waved: is("wave"),
	}
}

func greeting(key string) job.Spec {
	return job.Spec{Kind: "greeting", Key: key, Destination: "home", Payload: []byte(`{"text":"hello"}`)}
}

func TestExampleIsAWorkerThatStopsOnSIGTERM(t *testing.T) {
	in := install(t)
	t.Setenv("DULY_DATABASE_URL", in.worker.DatabaseURL)
	t.Setenv("DULY_BUS_URL", in.worker.BusURL)
	t.Setenv("DULY_CONFIG", in.worker.File)
	in.enqueue(greeting("a"))
	ended := make(chan struct{})
	go func() { defer close(ended); ExampleRun() }()
	require.Equal(t, "greeting/a:1:go at home", <-greeted)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	<-ended
	require.True(t, in.is("a", job.Delivered), "the drain has committed the result")
}

func TestHandlerDecidesWhatBecomesOfItsJob(t *testing.T) {
	t.Parallel()
	in := install(t)
	tries := make(chan int32, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, in.worker, worker.Handlers{"greeting": handler.Func(func(_ context.Context, j handler.Job) error {
			if j.Key == "broken" {
				return handler.Permanent(errors.New("no such door"), job.CodeDestinationInvalid)
			}
			tries <- j.Attempt
			if j.Attempt < 3 {
				return handler.NotDone(errors.New("not at home"))
			}
			return nil
		})})
	}()
	in.enqueue(greeting("patient"), greeting("broken"))
	for want := range int32(3) {
		require.Equal(t, want+1, <-tries)
	}
	require.Eventually(t, func() bool { return in.is("patient", job.Delivered) }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return in.is("broken", job.Quarantined) }, time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}

func TestG1ManyJobsAreDeliveredByTwoWorkersOnceEach(t *testing.T) { // G14
	t.Parallel()
	in := install(t)
	const jobs = 2000
	seen := make(chan string, 2*jobs)
	handlers := worker.Handlers{"greeting": handler.Func(func(_ context.Context, j handler.Job) error {
		seen <- j.Key
		return nil
	})}
	ctx, stop := context.WithCancel(t.Context())
	deployed, deploy := context.WithCancel(t.Context())
	defer deploy()
	ended := make(chan error, 2)
	go func() { ended <- worker.Run(deployed, in.worker, handlers) }()
	go func() { ended <- worker.Run(ctx, in.worker, handlers) }()
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i] = greeting(fmt.Sprintf("customer-%d", i))
	}
	in.enqueue(specs...)
	keys := map[string]int{}
	for range jobs {
		keys[<-seen]++
		if len(keys) == jobs/4 {
			deploy() // one of the two is replaced in the middle of the work
		}
	}
	require.NoError(t, <-ended)
	require.Len(t, keys, jobs, "each once: %d effects for %d keys", jobs, len(keys))
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, seen)
	for _, s := range specs[:50] {
		require.True(t, in.is(s.Key, job.Delivered))
	}
}

func TestHandlersThatNoJobCouldReachAreRefused(t *testing.T) {
	t.Parallel()
	in := install(t)
	nop := handler.Func(func(context.Context, handler.Job) error { return nil })
	for wrong, handlers := range map[string]worker.Handlers{
		"no such kind":         {"farewell": nop},
		"channel":              {"call": nop},
		"kind greeting is nil": {"greeting": nil},
	} {
		err := worker.Run(t.Context(), in.worker, handlers)
		require.ErrorContains(t, err, wrong)
		require.Equal(t, app.ExitUsage, app.ExitCode(err))
	}
}

func TestMissingSettingsAreNamedTogether(t *testing.T) { //nolint:paralleltest // the environment is the process's
	for _, name := range []string{"DULY_DATABASE_URL", "DULY_DATABASE_URL_FILE", "DULY_BUS_URL", "DULY_BUS_URL_FILE"} {
		t.Setenv(name, "")
	}
	err := worker.Run(t.Context(), worker.Config{}, nil)
	require.ErrorContains(t, err, "DULY_DATABASE_URL")
	require.ErrorContains(t, err, "DULY_BUS_URL")
}

// What a handler leaves unknown is asked about by the function beside it: what happened is
// delivered, and what did not is tried again. Each is done once.
func TestG8ALookupBesideAHandlerSettlesWhatItsHandlerLeftUnknown(t *testing.T) {
	t.Parallel()
	in := install(t)
	var done sync.Map // by effect key: whether the receiver has acted
	effects := make(chan string, 100)
	wave := handler.WithLookup(handler.Func(func(_ context.Context, j handler.Job) error {
		if j.Key == "seen" || j.Attempt > 1 {
			done.Store(j.EffectKey, true)
			effects <- j.EffectKey
		}
		if j.Attempt > 1 {
			return nil
		}
		return errors.New("looked away")
	}), func(_ context.Context, q handler.Question) (handler.Answer, error) {
		if _, ok := done.Load(q.EffectKey); ok {
			return handler.Happened("w-1"), nil
		}
		return handler.DidNotHappen(), nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, in.worker, worker.Handlers{"wave": wave}) }()
	in.enqueue(job.Spec{Kind: "wave", Key: "seen", Payload: []byte(`{}`)}, job.Spec{Kind: "wave", Key: "unseen", Payload: []byte(`{}`)})
	for _, key := range []string{"seen", "unseen"} {
		require.Eventually(t, func() bool { return in.waved(key, job.Delivered) }, time.Minute, 10*time.Millisecond, key)
	}
	stop()
	require.NoError(t, <-ended)
	close(effects)
	counts := map[string]int{}
	for key := range effects {
		counts[key]++
	}
	require.Equal(t, map[string]int{"wave/seen:1:go": 1, "wave/unseen:1:go": 1}, counts)
}

// What was generated for a job is removed by the function beside its handler, behind the
// delivery, and again where that failed.
func TestACleanupBesideAHandlerIsCalledBehindTheDelivery(t *testing.T) {
	t.Parallel()
	in := install(t)
	calls := make(chan handler.Ended, 10)
	var performed, tried sync.Map
	draft := handler.WithCleanup(handler.Func(func(_ context.Context, j handler.Job) error {
		performed.Store(j.Key, true)
		return nil
	}), func(_ context.Context, e handler.Ended) error {
		if _, ok := performed.Load(e.Key); !ok {
			return errors.New("it was called before the handler")
		}
		if _, again := tried.LoadOrStore(e.Key, true); !again {
			return errors.New("the disk is away")
		}
		calls <- e
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, in.worker, worker.Handlers{"draft": draft}) }()
	in.enqueue(job.Spec{Kind: "draft", Key: "one", Subject: "customer", Period: "2026-W42", Payload: []byte(`{}`)})
	require.Equal(t, handler.Ended{Kind: "draft", Key: "one", Subject: "customer", Period: "2026-W42", Generation: 1, State: job.Delivered}, <-calls)
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, calls, "once it is done it is not called again")
}
