package contact

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 10, 12, 12, 0, 0, 0, time.UTC)

// at is an instant at which both clocks have gone on evenly.
func at(d time.Duration) Instant { return Instant{d, noon.Add(d)} }

func TestContactLastsWhileAnswersComeWithoutAGap(t *testing.T) {
	t.Parallel()
	c := Contact{Gap: 5 * time.Second}
	require.Zero(t, c.Unbroken(at(0)))
	require.True(t, c.Seen(at(time.Second)))
	for s := 2; s <= 40; s++ {
		require.False(t, c.Seen(at(time.Duration(s)*time.Second)))
	}
	require.Equal(t, 39*time.Second, c.Unbroken(at(40*time.Second)))
	require.Zero(t, c.Unbroken(at(46*time.Second)), "nobody has answered for 6 s")
	require.True(t, c.Seen(at(46*time.Second)), "and what happened meanwhile is not known")
	require.Zero(t, c.Unbroken(at(46*time.Second)))
}

func TestFailureBreaksTheContact(t *testing.T) {
	t.Parallel()
	c := Contact{Gap: 5 * time.Second}
	c.Seen(at(0))
	c.Lost()
	require.Zero(t, c.Unbroken(at(time.Second)))
	require.True(t, c.Seen(at(2*time.Second)))
}

func TestSuspendBreaksTheContact(t *testing.T) {
	t.Parallel()
	c := Contact{Gap: 5 * time.Second}
	c.Seen(at(0))
	asleep := Instant{time.Second, noon.Add(time.Hour)} // the monotonic clock stood still
	require.Zero(t, c.Unbroken(asleep))
	require.True(t, c.Seen(asleep))
}

func TestClockToleratesSlowAnswersAndDrift(t *testing.T) {
	t.Parallel()
	var c Clock
	require.Zero(t, c.Observe(at(0), at(time.Millisecond), noon))
	require.Zero(t, c.Observe(at(time.Second), at(9*time.Second), noon.Add(time.Second)), "it was read at the beginning")
	require.Zero(t, c.Observe(at(10*time.Second), at(19*time.Second), noon.Add(19*time.Second)), "or at the end")
	require.Zero(t, c.Observe(at(20*time.Second), at(20*time.Second), noon.Add(21900*time.Millisecond)))
	hours := 12 * time.Hour
	require.Zero(t, c.Observe(at(hours), at(hours), noon.Add(hours+20*time.Second)), "after hours apart")
}

func TestClockNoticesStepsEitherWay(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, 3 * time.Second, -3 * time.Second, -time.Hour} {
		var c Clock
		c.Observe(at(0), at(0), noon)
		require.InDelta(t, step, c.Observe(at(time.Second), at(time.Second), noon.Add(time.Second+step)), float64(time.Second))
		require.Zero(t, c.Observe(at(2*time.Second), at(2*time.Second), noon.Add(2*time.Second+step)), "it is told once")
	}
}

// clockwork is a ledger that tells what it is told to.
type clockwork struct {
	time time.Time
	err  error
}

func (c *clockwork) Now(context.Context) (time.Time, error) { return c.time, c.err }

func TestWatchHoldsForALeaseTimeAfterEveryStep(t *testing.T) {
	t.Parallel()
	ledger, now := &clockwork{time: noon}, at(0)
	metrics := prometheus.NewRegistry()
	w, err := New(Options{Ledger: ledger, Hold: 30 * time.Second, Metrics: metrics})
	require.NoError(t, err)
	w.now = func() Instant { return now }
	look := func(after, ahead time.Duration) bool {
		now = at(after)
		ledger.time = noon.Add(after + ahead)
		steady, err := w.Steady(t.Context())
		require.NoError(t, err)
		return steady
	}
	require.True(t, look(0, 0))
	require.True(t, look(time.Second, 0))
	require.False(t, look(2*time.Second, time.Hour))
	require.InDelta(t, 1, testutil.ToFloat64(w.held), 0)
	require.False(t, look(31*time.Second, time.Hour))
	require.True(t, look(32*time.Second, time.Hour))
	require.False(t, look(33*time.Second, 0), "stepping back is a step too")
	require.InDelta(t, 2, testutil.ToFloat64(w.steps), 0)
	require.False(t, look(62*time.Second, 0))
	require.True(t, look(63*time.Second, 0))
	require.InDelta(t, 0, testutil.ToFloat64(w.held), 0)
}

func TestWatchCountsContactFromTheLastFailure(t *testing.T) {
	t.Parallel()
	ledger, now := &clockwork{time: noon}, at(0)
	w, err := New(Options{Ledger: ledger})
	require.NoError(t, err)
	w.now = func() Instant { return now }
	look := func(after time.Duration) error {
		now = at(after)
		ledger.time = noon.Add(after)
		_, err := w.Steady(t.Context())
		return err
	}
	require.NoError(t, look(0))
	require.NoError(t, look(4*time.Second))
	require.Equal(t, 4*time.Second, w.Unbroken())
	ledger.err = errors.New("restarting")
	require.ErrorIs(t, look(5*time.Second), ledger.err)
	require.Zero(t, w.Unbroken())
	ledger.err = nil
	require.NoError(t, look(6*time.Second))
	require.NoError(t, look(9*time.Second))
	require.Equal(t, 3*time.Second, w.Unbroken())
}

func TestOneReadingAnswersAllLoopsForAMoment(t *testing.T) {
	t.Parallel()
	ledger, now := &clockwork{time: noon}, at(0)
	w, err := New(Options{Ledger: ledger, Fresh: 250 * time.Millisecond})
	require.NoError(t, err)
	w.now = func() Instant { return now }
	look := func(after time.Duration) (bool, error) {
		now = at(after)
		ledger.time = noon.Add(after)
		return w.Steady(t.Context())
	}
	steady, err := look(0)
	require.NoError(t, err)
	require.True(t, steady)
	down := errors.New("restarting")
	ledger.err = down
	steady, err = look(249 * time.Millisecond)
	require.NoError(t, err, "nobody was asked")
	require.True(t, steady)
	_, err = look(250 * time.Millisecond)
	require.ErrorIs(t, err, down)
	_, err = look(251 * time.Millisecond)
	require.ErrorIs(t, err, down, "a failure answers nobody")
	ledger.err = nil
	_, err = look(252 * time.Millisecond)
	require.NoError(t, err)
	ledger.err = down
	now.Wall = now.Wall.Add(time.Hour)
	_, err = w.Steady(t.Context())
	require.ErrorIs(t, err, down, "a process that was suspended asks again")
}
