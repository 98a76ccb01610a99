package sweep

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// cleanedUp is what a function was called for.
type cleanedUp struct {
	mu    sync.Mutex
	calls []machine.CleanupTask
	fails func(n int, t machine.CleanupTask) error
}

func (c *cleanedUp) clean(_ context.Context, t machine.CleanupTask) error {
	c.mu.Lock()
	c.calls = append(c.calls, t)
	n := len(c.calls)
	c.mu.Unlock()
	if c.fails == nil {
		return nil
	}
	return c.fails(n, t)
}

func (c *cleanedUp) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// janitor is a janitor that runs until the test ends.
func (r *rig) janitor(clean CleanupFunc) *Janitor {
	r.t.Helper()
	j, err := NewJanitor(JanitorOptions{Watch: r.sweeper.watch, Metrics: prometheus.NewRegistry(), Kinds: []Cleanable{{
		Kind: r.kind.Name, Cleaner: NewFuncCleaner(r, r.kind.Name, 0, clean),
	}}})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		require.ErrorIs(r.t, <-done, context.Canceled)
	})
	return j
}

func (j *Janitor) counted(o machine.CleanupOutcome) float64 {
	return testutil.ToFloat64(j.cleanups.WithLabelValues("reminder", string(o)))
}

func inGatedBubble(t *testing.T, do func(t *testing.T, r *rig), change ...func(*machine.CleanupRule)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		do(t, newRig(t, func(k *machine.Kind) {
			rule := machine.DefaultCleanup()
			rule.By = machine.MeansGo
			for _, c := range change {
				c(&rule)
			}
			k.Cleanup = &rule
			k.Policy.Jitter = 0
		}))
	})
}

// end makes a job that came to the result.
func (r *rig) end(name string, result job.Result) {
	r.t.Helper()
	w := r.register()
	grants, err := r.lease(w, r.enqueue(name, 1)...)
	require.NoError(r.t, err)
	r.settle(w, grants[0], result)
}

func (r *rig) cleanup(key string) machine.Cleanup {
	r.t.Helper()
	story, err := r.Show(r.t.Context(), r.kind.Name, key)
	require.NoError(r.t, err)
	return story.Cleanup
}

func TestG11AFunctionCleansUpOnceItIsDueAndIsTriedAgainWhereItFailed(t *testing.T) {
	t.Parallel()
	inGatedBubble(t, func(t *testing.T, r *rig) {
		c := &cleanedUp{fails: func(n int, _ machine.CleanupTask) error {
			switch n {
			case 1:
				return errors.New("it is away")
			case 2:
				panic("confidential")
			}
			return nil
		}}
		j := r.janitor(c.clean)
		r.enqueue("later", 1)
		wait(2 * time.Hour)
		require.Zero(t, c.times(), "nothing is over")

		r.end("one", job.Done(nil))
		wait(time.Hour - time.Second)
		require.Zero(t, c.times(), "not before its gate opens")
		wait(3 * time.Second)
		require.Equal(t, 1, c.times())
		require.Equal(t, machine.CleanupTask{Job: 2, Generation: 1, Kind: "reminder", Key: "one-0", State: job.Delivered, Tries: 1}, c.calls[0])
		require.Equal(t, "it is away", r.cleanup("one-0").Error)
		wait(27 * time.Second)
		require.Equal(t, 1, c.times(), "not before the kind's delay")
		wait(6 * time.Second)
		require.Equal(t, "the cleanup panicked", r.cleanup("one-0").Error)
		wait(time.Hour)
		require.Equal(t, 3, c.times())
		require.False(t, r.cleanup("one-0").DoneAt.IsZero())
		wait(6 * time.Hour)
		require.Equal(t, 3, c.times(), "what is done is done")
		require.InDelta(t, 2, j.counted(machine.CleanupFailed), 0)
		require.InDelta(t, 1, j.counted(machine.CleanupDone), 0)
	}, func(rule *machine.CleanupRule) { rule.From = time.Hour })
}

// One that does not even return when its time is over counts as failed, is left in its
// place, and waits for a person in the end. No more of them run than there are places.
func TestACleanupThatNeverReturnsIsLeftBehind(t *testing.T) {
	t.Parallel()
	inGatedBubble(t, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		j := r.janitor(func(context.Context, machine.CleanupTask) error { <-release; return nil })
		r.end("stuck", job.Done(nil))
		wait(12 * time.Second)
		require.Equal(t, "it had not returned in time", r.cleanup("stuck-0").Error)
		wait(10 * time.Minute)
		require.False(t, r.cleanup("stuck-0").ParkedAt.IsZero())
		require.InDelta(t, 1, j.counted(machine.CleanupParked), 0)
		close(release)
		synctest.Wait()
	}, func(rule *machine.CleanupRule) { rule.MaxTries = 3 })
}

// What the end of the process cuts short has not failed.
func TestACleanupThatIsCutShortComesAgain(t *testing.T) {
	t.Parallel()
	inGatedBubble(t, func(t *testing.T, r *rig) {
		begun := make(chan struct{}, 1)
		first := NewFuncCleaner(r, r.kind.Name, 0, func(ctx context.Context, _ machine.CleanupTask) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		r.end("cut", job.Done(nil))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := first.Clean(ctx, 10, time.Minute)
			ended <- err
		}()
		<-begun
		stop()
		require.NoError(t, <-ended)
		require.Empty(t, r.cleanup("cut-0").Error)
		c := &cleanedUp{}
		r.janitor(c.clean)
		wait(time.Minute - time.Second)
		require.Zero(t, c.times(), "it is not taken before hold is over")
		wait(3 * time.Second)
		require.Equal(t, 1, c.times())
	})
}

func TestAJanitorWithoutACleanerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := NewJanitor(JanitorOptions{Kinds: []Cleanable{{Kind: "a"}, {Kind: "b", Cleaner: &FuncCleaner{}, Timeout: time.Minute}}})
	require.ErrorContains(t, err, "kind a:")
	require.ErrorContains(t, err, "kind b:")
}
