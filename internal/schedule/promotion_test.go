package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/pkg/job"
)

// steady is a watch that says what it is told to.
type steady struct {
	mu  sync.Mutex
	not bool
	err error
}

func (s *steady) Steady(context.Context) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.not, s.err
}

func (s *steady) set(not bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.not, s.err = not, err
}

// rig is a promotion on a ledger in memory, inside a bubble.
type rig struct {
	*memledger.Ledger
	t         *testing.T
	watch     *steady
	promotion *Promotion
	// What the loop did.
	succeeded, ready atomic.Int64
}

const lane = "main"

func newRig(t *testing.T, metrics prometheus.Registerer) *rig {
	t.Helper()
	r := &rig{Ledger: memledger.New(), t: t, watch: &steady{}}
	require.NoError(t, r.SyncKinds(t.Context(), []machine.Kind{{
		Name: "reminder", Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second),
	}}))
	p, err := New(Options{Ledger: r, Watch: r.watch, Batch: 10, Metrics: metrics, Succeeded: func() { r.succeeded.Add(1) }})
	require.NoError(t, err)
	r.promotion = p
	return r
}

// run runs the loop until the test ends.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.promotion.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.ErrorIs(r.t, <-done, context.Canceled)
	})
}

func (r *rig) schedule(name string, n int, in time.Duration) {
	r.t.Helper()
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i] = job.Spec{Kind: "reminder", Key: fmt.Sprintf("%s-%d", name, i), Payload: []byte(`{}`), Due: time.Now().Add(in)}
	}
	_, err := r.Enqueue(r.t.Context(), specs)
	require.NoError(r.t, err)
}

// Promote counts what the ledger promotes.
func (r *rig) Promote(ctx context.Context, from machine.Position, limit int) (machine.Promotion, error) {
	p, err := r.Ledger.Promote(ctx, from, limit)
	for _, n := range p.Promoted {
		r.ready.Add(int64(n))
	}
	return p, err
}

func TestWhatIsDueIsReadyWithinARest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.schedule("soon", 25, time.Minute)
		r.schedule("later", 5, time.Hour)
		r.run()
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		require.Zero(t, r.ready.Load())
		time.Sleep(102 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 25, r.ready.Load())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 30, r.ready.Load())
		require.Positive(t, r.succeeded.Load())
	})
}

func TestNothingIsPromotedWhileTheClockIsNotToBeTrusted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.schedule("soon", 3, time.Minute)
		r.watch.set(true, nil)
		r.run()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Zero(t, r.ready.Load())
		require.Zero(t, r.succeeded.Load(), "it is not ready")
		r.watch.set(false, nil)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 3, r.ready.Load())
	})
}

func TestPromotionOutlivesALedgerThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		r := newRig(t, metrics)
		r.schedule("soon", 3, time.Second)
		r.Faults(func(string) memledger.Fault { return memledger.Fail })
		r.run()
		time.Sleep(time.Minute)
		r.watch.set(false, errors.New("down"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, r.ready.Load())
		require.Positive(t, testutil.ToFloat64(r.promotion.metrics.failures))
		r.Faults(nil)
		r.watch.set(false, nil)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, r.ready.Load())
		require.InDelta(t, 3, testutil.ToFloat64(r.promotion.metrics.promoted.WithLabelValues("due")), 0)
	})
}

// script is a ledger that answers looks one by one and notes where they began.
type script struct {
	mu    sync.Mutex
	looks []machine.Position
	more  func(from machine.Position) machine.Promotion
}

func (s *script) Promote(_ context.Context, from machine.Position, _ int) (machine.Promotion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, from)
	return s.more(from), nil
}

// A walk through a long backlog looks at the front once a second and goes on where it
// was; at its end it rests there.
func TestWalkGoesOnBehindItsLastBatchAndLooksAtTheFrontOnceASecond(t *testing.T) {
	t.Parallel()
	at := func(n int64) machine.Position { return machine.Position{Job: n} }
	w := walk{every: time.Second}
	now := time.Unix(1000, 0)
	require.Equal(t, at(0), w.next(now))
	require.True(t, w.went(machine.Promotion{Next: at(10), More: true}))
	require.Equal(t, at(10), w.next(now.Add(900*time.Millisecond)))
	require.True(t, w.went(machine.Promotion{Next: at(20), More: true}))
	require.Equal(t, at(0), w.next(now.Add(time.Second)), "once a second at the front")
	require.True(t, w.went(machine.Promotion{Next: at(3)}), "the walk is not at its end")
	require.Equal(t, at(20), w.next(now.Add(time.Second)), "and on from where it was")
	require.False(t, w.went(machine.Promotion{Next: at(25)}))
	require.Equal(t, at(25), w.next(now.Add(1500*time.Millisecond)))
	require.False(t, w.went(machine.Promotion{Next: at(25)}))
	require.Equal(t, at(0), w.next(now.Add(2*time.Second)), "a new walk")
	require.False(t, w.went(machine.Promotion{}), "nothing is due")
	require.Equal(t, at(25), w.next(now.Add(2100*time.Millisecond)), "what was promoted is not looked past again")
	require.False(t, w.went(machine.Promotion{Next: at(25)}))
	require.Equal(t, at(0), w.next(now.Add(3*time.Second)))
	require.True(t, w.went(machine.Promotion{Next: at(7), More: true}))
	require.Equal(t, at(7), w.next(now.Add(3*time.Second)), "a new walk goes all the way")
}

func TestLostDelayedEmissionsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{more: func(machine.Position) machine.Promotion {
			return machine.Promotion{Promoted: map[job.Waiting]int{job.WaitingRetry: 2, job.WaitingDue: 1}, Ended: machine.Tally{{State: job.Quarantined, Reason: job.ReasonDeadline}: 4}}
		}}
		p, err := New(Options{Ledger: s, Watch: &steady{}, Metrics: prometheus.NewRegistry()})
		require.NoError(t, err)
		_, err = p.look(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 2, testutil.ToFloat64(p.metrics.lost), 0)
		require.InDelta(t, 4, testutil.ToFloat64(p.metrics.ended.WithLabelValues("quarantined", "deadline_passed")), 0)
		require.Equal(t, []machine.Position{{}}, s.looks)
	})
}
