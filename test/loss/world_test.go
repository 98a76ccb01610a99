package loss_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/channel"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/job"
)

const (
	lane = "main"
	kind = "reminder"
)

func reminders() machine.Kind {
	return machine.Kind{Name: kind, Lane: lane, Channel: "test", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
}

// world is a ledger and a broker in memory, in a bubble, with a scheduler that runs until
// the test ends.
type world struct {
	*testing.T
	ledger  *memledger.Ledger
	broker  *membus.Broker
	effects *effects
	metrics *prometheus.Registry // of the sweeps
	kind    machine.Kind
	skew    time.Duration // of the broker's clock; positive where it is ahead
	jobs    int
}

func inWorld(t *testing.T, kind machine.Kind, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, ledger: memledger.New(), broker: membus.NewBroker(membus.Options{}), effects: newEffects(), metrics: prometheus.NewRegistry(), kind: kind}
		require.NoError(t, w.ledger.SyncKinds(t.Context(), []machine.Kind{kind}))
		w.schedule()
		test(w)
	})
}

// start runs a part of the fleet until stop is called or the test ends.
func (w *world) start(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = run(ctx) }() // ctx's error
	stop = func() { cancel(); <-ended }
	w.Cleanup(stop)
	return stop
}

// schedule runs the loops of a scheduler.
func (w *world) schedule() {
	w.Helper()
	watch, err := contact.New(contact.Options{Ledger: w.ledger})
	require.NoError(w, err)
	sweeps, err := sweep.New(sweep.Options{Ledger: w.ledger, Watch: watch, Metrics: w.metrics})
	require.NoError(w, err)
	promotion, err := schedule.New(schedule.Options{Ledger: w.ledger, Watch: watch, Rest: time.Second})
	require.NoError(w, err)
	w.start(sweeps.Run)
	w.start(promotion.Run)
}

// dispatch runs a dispatcher.
func (w *world) dispatch() (stop func()) {
	w.Helper()
	d, err := dispatch.New(dispatch.Options{Ledger: w.ledger, Bus: skewed{w.broker.Connect(), w.skew}})
	require.NoError(w, err)
	return w.start(d.Run)
}

// work runs a worker.
func (w *world) work() (stop func()) {
	w.Helper()
	worker := newWorker(w, w.kind, w.ledger, w.broker.Connect(), w.effects, 100, 32)
	return w.start(worker.Run)
}

func newWorker(t require.TestingT, k machine.Kind, l *memledger.Ledger, b execute.Source, e *effects, slots, pack int) *execute.Worker {
	worker, err := execute.New(execute.Options{
		Ledger: l, Heart: l, Bus: b, Slots: slots, Label: "test", Version: "v1",
		Kinds: []execute.Kind{{Kind: k, Performer: e, Handler: true}}, Lanes: []execute.Lane{{Name: lane, Pack: pack}},
	})
	require.NoError(t, err)
	return worker
}

// skewed is a bus whose broker's clock is wrong: what is to be delivered at an instant
// comes when that clock shows it.
type skewed struct {
	*membus.Bus
	ahead time.Duration
}

// Publish stores messages as a broker does whose clock is ahead.
func (s skewed) Publish(ctx context.Context, messages []bus.Message) []error {
	moved := make([]bus.Message, len(messages))
	for i, m := range messages {
		if !m.At.IsZero() {
			m.At = m.At.Add(-s.ahead)
		}
		moved[i] = m
	}
	return s.Bus.Publish(ctx, moved)
}

// enqueue makes n jobs that are due, each in a transaction of its own, and returns their
// keys.
func (w *world) enqueue(n int) []string {
	w.Helper()
	keys := make([]string, n)
	for i := range keys {
		w.jobs++
		keys[i] = fmt.Sprint("job-", w.jobs)
		enqueue(w.T, w.ledger, keys[i])
	}
	return keys
}

func enqueue(t *testing.T, l *memledger.Ledger, key string) int64 {
	t.Helper()
	made, err := l.Enqueue(t.Context(), []job.Spec{{Kind: kind, Key: key, Payload: []byte(`{}`)}})
	require.NoError(t, err)
	require.NoError(t, made[0].Refused)
	return made[0].Job
}

// wait lets time go by, and whatever happens in it.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// losing has the broker acknowledge and lose all work until stop is called.
func (w *world) losing() (stop func()) {
	w.broker.SetFaults(membus.Faults{Fate: func(m bus.Message) membus.Fate {
		if m.Type == bus.TypeWork {
			return membus.Lose
		}
		return membus.Keep
	}})
	return func() { w.broker.SetFaults(membus.Faults{}) }
}

// reemitted is how many references the sweeps announced anew.
func (w *world) reemitted() int {
	w.Helper()
	families, err := w.metrics.Gather()
	require.NoError(w, err)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "duly_reemitted_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// row is the current generation of a job.
func row(t *testing.T, l *memledger.Ledger, key string) machine.Row {
	t.Helper()
	story, err := l.Find(t.Context(), kind, key)
	require.NoError(t, err)
	g, ok := story.Current()
	require.True(t, ok)
	return g.Row
}

// effects is a channel that writes down when each effect began.
type effects struct {
	// do says what comes of an effect that has begun; nil: it is done.
	do func(e channel.Effect) job.Result

	mu    sync.Mutex
	began map[string][]time.Time
}

func newEffects() *effects { return &effects{began: make(map[string][]time.Time)} }

// Name is the channel's.
func (*effects) Name() string { return "test" }

// Check takes everything.
func (*effects) Check(string, []byte) *job.Refusal { return nil }

// Close has nothing to end.
func (*effects) Close() error { return nil }

// Deliver performs an effect.
func (x *effects) Deliver(_ context.Context, e channel.Effect) job.Result {
	if err := e.Begin(); err != nil {
		return job.NotBegun(err.Error())
	}
	x.mu.Lock()
	x.began[e.Key] = append(x.began[e.Key], time.Now())
	x.mu.Unlock()
	if x.do != nil {
		return x.do(e)
	}
	return job.Done(nil)
}

// of is when the effects of a job began.
func (x *effects) of(key string) []time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.began[key]
}

// total is how many effects have begun.
func (x *effects) total() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, times := range x.began {
		n += len(times)
	}
	return n
}
