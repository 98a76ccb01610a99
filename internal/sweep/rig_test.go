package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

const (
	lane      = "main"
	retention = time.Hour
)

// rig is a sweeper on a ledger in memory, inside a bubble in which time is not real.
type rig struct {
	*memledger.Ledger
	t       *testing.T
	kind    machine.Kind
	sweeper *Sweeper

	mu      sync.Mutex
	step    time.Duration   // of the ledger's clock, as Now tells it
	kept    []time.Duration // what KeepPartitions was called with
	figures machine.Figures
	alive   int    // successful looks for dead workers
	stuck   string // lane that cannot be judged
}

// Judge fails on the lane that is stuck.
func (r *rig) Judge(ctx context.Context, lane string, contact time.Duration, limit int) (lost int, more bool, err error) {
	r.mu.Lock()
	stuck := r.stuck
	r.mu.Unlock()
	if lane == stuck {
		return 0, false, errors.New("one of its jobs is locked")
	}
	return r.Ledger.Judge(ctx, lane, contact, limit)
}

// Now is the ledger's clock.
func (r *rig) Now(ctx context.Context) (time.Time, error) {
	if err := r.LoadKinds(ctx); err != nil { // fails when the ledger is down
		return time.Time{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.step), nil
}

// KeepPartitions notes how long is kept.
func (r *rig) KeepPartitions(_ context.Context, keep time.Duration) (machine.Partitions, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, keep)
	return machine.Partitions{Made: 8}, nil
}

// Figures are what the test says.
func (r *rig) Figures(context.Context, int) (machine.Figures, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.figures, nil
}

// inBubble runs a test with a rig whose sweeper runs until the test ends.
func inBubble(t *testing.T, do func(t *testing.T, r *rig), change ...func(*machine.Kind)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.sweeper.Run(ctx) }()
		do(t, r)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
}

func newRig(t *testing.T, change ...func(*machine.Kind)) *rig {
	t.Helper()
	r := &rig{Ledger: memledger.New(), t: t, kind: machine.Kind{
		Name: "reminder", Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second),
	}}
	for _, c := range change {
		c(&r.kind)
	}
	require.NoError(t, r.SyncKinds(t.Context(), []machine.Kind{r.kind}))
	watch, err := contact.New(contact.Options{Ledger: r})
	require.NoError(t, err)
	r.sweeper, err = New(Options{Ledger: r, Watch: watch, Retention: retention, Metrics: prometheus.NewRegistry(), Succeeded: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.alive++
	}})
	require.NoError(t, err)
	return r
}

// wait lets time go by, and whatever happens in it.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) register() machine.Worker {
	r.t.Helper()
	w := machine.Worker{ID: uuid.NewString(), Label: "test", Version: "v1", LeaseTime: 30 * time.Second}
	require.NoError(r.t, r.RegisterWorker(r.t.Context(), w))
	return w
}

// beat renews the worker's lease every 5 s, as far as the ledger answers, until the
// function that it returns is called.
func (r *rig) beat(w machine.Worker) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = r.Heartbeat(ctx, w.ID) // what the ledger refuses is what the test looks at
			pause.For(ctx, 5*time.Second)
		}
	}()
	return func() { cancel(); <-done }
}

// enqueue makes n jobs, due now or, if in is positive, later.
func (r *rig) enqueue(name string, n int, change ...func(*job.Spec)) []job.Ref {
	r.t.Helper()
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = job.Spec{Kind: r.kind.Name, Key: fmt.Sprintf("%s-%d", name, i), Payload: []byte(`{}`)}
		for _, c := range change {
			c(&specs[i])
		}
	}
	made, err := r.Enqueue(r.t.Context(), specs)
	require.NoError(r.t, err)
	refs := make([]job.Ref, n)
	for i, m := range made {
		refs[i] = job.Ref{Job: m.Job, Generation: 1, Emission: 1}
	}
	return refs
}

func (r *rig) lease(w machine.Worker, refs ...job.Ref) ([]machine.Grant, error) {
	leases, err := r.Lease(r.t.Context(), machine.LeaseRequest{Worker: w, Kind: r.kind, Refs: refs})
	return leases.Grants, err
}

func (r *rig) settle(w machine.Worker, g machine.Grant, result job.Result) {
	r.t.Helper()
	_, err := r.Settle(r.t.Context(), w, []machine.Report{{
		Attempt: machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence}, Result: result, Kind: &g.Row.Kind,
	}})
	require.NoError(r.t, err)
}

// states counts the jobs by state.
func (r *rig) states() map[job.State]int {
	r.t.Helper()
	tally, err := r.Tally(r.t.Context())
	require.NoError(r.t, err)
	return tally
}
