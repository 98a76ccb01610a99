package schedule

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/machine"
)

// runs is a ledger of runs in memory.
type runs struct {
	mu       sync.Mutex
	clock    time.Duration // how far its clock is from the bubble's
	since    map[string]time.Time
	opened   map[string]machine.Run // by schedule and period
	without  []machine.Occurrence
	frozen   []string
	err      error // of the next freezes
	old      int   // runs whose retention is over
	retiring error
	figures  int // how often they were asked for
	cleared  int // how often old occurrences were removed
	deciding sync.Mutex
	decided  int
}

func newRuns() *runs {
	return &runs{since: map[string]time.Time{}, opened: map[string]machine.Run{}}
}

func (r *runs) now() time.Time { return time.Now().Add(r.clock).UTC() }

func (r *runs) Fire(_ context.Context, name, kind string, step time.Duration, decide func(machine.Moment) machine.Firing) (machine.Fired, bool, error) {
	if !r.deciding.TryLock() {
		return machine.Fired{}, false, nil
	}
	defer r.deciding.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decided++
	if r.since[name].IsZero() {
		r.since[name] = r.now()
	}
	m := machine.Moment{Since: r.since[name], Now: r.now()}
	for _, run := range r.opened {
		m.Running = m.Running || run.Schedule == name && run.Finished.IsZero() && !run.At.After(m.Now)
	}
	f := decide(m)
	if f.Empty() && f.Through.Sub(m.Since).Abs() < step {
		return machine.Fired{}, true, nil
	}
	var fired machine.Fired
	for _, o := range f.Open {
		at := name + " " + o.Period
		if _, taken := r.opened[at]; taken {
			fired.Taken++
			continue
		}
		run := machine.Run{ID: int64(len(r.opened) + 1), Schedule: name, Period: o.Period, Kind: kind, At: o.At, Local: o.Local, Zone: o.Zone, Cause: o.Cause, State: machine.RunOpen}
		r.opened[at] = run
		fired.Opened = append(fired.Opened, run)
	}
	r.without = append(r.without, f.Without...)
	r.since[name] = f.Through
	return fired, true, nil
}

func (r *runs) FreezeNext(_ context.Context, _ []string, plan func(machine.Run) (machine.Selection, error), rest func(int) time.Duration) (*machine.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, run := range r.opened {
		if run.State != machine.RunOpen || run.Next.After(r.now()) {
			continue
		}
		if _, err := plan(run); err != nil {
			return &run, err
		}
		if r.err != nil {
			run.Tries++
			run.Next = r.now().Add(rest(run.Tries))
			r.opened[at] = run
			return &run, r.err
		}
		run.State, run.Finished = machine.RunFrozen, r.now()
		r.opened[at] = run
		r.frozen = append(r.frozen, at)
		return &run, nil
	}
	return nil, nil //nolint:nilnil // nothing is open
}

func (r *runs) FinishRuns(context.Context) (int, error) { return 0, nil }

func (r *runs) RetireRun(context.Context, time.Duration) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retiring != nil || r.old == 0 {
		return false, r.retiring
	}
	r.old--
	return true, nil
}

func (r *runs) RetireOccurrences(context.Context, time.Duration) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleared++
	return 0, nil
}

func (r *runs) RunFigures(context.Context) ([]machine.RunFigures, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures++
	return nil, nil
}

// seen returns copies of what there is so far.
func (r *runs) seen() (opened map[string]machine.Run, frozen []string, without []machine.Occurrence, decided int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.opened), slices.Clone(r.frozen), slices.Clone(r.without), r.decided
}

// change changes the ledger between two calls.
func (r *runs) change(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// start runs the loops of a scheduler until stop.
func (r *runs) start(t *testing.T, watch Watch, schedules ...*Schedule) (stop func()) {
	t.Helper()
	var all []Schedule
	for _, s := range schedules {
		all = append(all, *s)
	}
	loops, err := NewRuns(RunOptions{Ledger: r, Watch: watch, Schedules: all, Retention: time.Hour})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loops.Run(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func minutely(t *testing.T, change ...func(*calendar.Spec)) *Schedule {
	t.Helper()
	s := digest(t, append([]func(*calendar.Spec){func(spec *calendar.Spec) {
		*spec = calendar.Spec{Cron: "* * * * *", Zone: "UTC", Period: calendar.PeriodOccurrence}
	}}, change...)...)
	s.Name = "minutely"
	return s
}

// A run opens when its occurrence comes, not a look later, and is frozen soon after.
func TestRunsOpenWhenTheirOccurrenceComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(10*time.Minute + 30*time.Second)
		synctest.Wait()
		opened, frozen, _, _ := r.seen()
		require.Len(t, opened, 10)
		require.Len(t, frozen, 10)
		for at, run := range opened {
			require.Equal(t, machine.RunFired, run.Cause, at)
		}
	})
}

// C15, C16, C17: schedulers do not elect anybody; three of them make each run once, and go
// on when one is gone.
func TestC16SchedulersNeedNoLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		first := r.start(t, &steady{}, minutely(t))
		defer r.start(t, &steady{}, minutely(t))()
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(5*time.Minute + 30*time.Second)
		first()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		opened, frozen, _, _ := r.seen()
		require.Len(t, opened, 10)
		require.Len(t, frozen, 10)
	})
}

// C12: 101 minutes without a scheduler. The newest occurrence is caught up, the others are
// counted as missed, and the schedule goes on.
func TestC12ScheduleGoesOnAfterManyMissedStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		stop := r.start(t, &steady{}, minutely(t))
		synctest.Wait()
		stop()
		time.Sleep(101*time.Minute + 10*time.Second)
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(time.Second)
		synctest.Wait()
		opened, _, without, _ := r.seen()
		missed := int64(0)
		for _, o := range without {
			require.Equal(t, machine.OccurrenceMissed, o.Outcome)
			missed += o.Count
		}
		require.Equal(t, int64(101), missed+int64(len(opened)))
		require.NotEmpty(t, opened)
		before := len(opened)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		opened, _, _, _ = r.seen()
		require.Len(t, opened, before+3)
	})
}

// C13: the ledger's clock goes two hours forward and back. Nothing of those hours runs
// twice, and no minute behind them is left out.
func TestC13ClockForwardAndBackLeavesNoGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		stop := r.start(t, &steady{}, minutely(t))
		time.Sleep(5*time.Minute + 30*time.Second)
		r.change(func() { r.clock = 2 * time.Hour })
		time.Sleep(time.Minute)
		r.change(func() { r.clock = 0 })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		seen := map[time.Time]bool{}
		for _, run := range r.opened {
			require.False(t, seen[run.At])
			seen[run.At] = true
		}
		begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where a bubble's clock begins
		for minute := 1; minute <= 11; minute++ {
			require.True(t, seen[begin.Add(time.Duration(minute)*time.Minute)] || minute == 6, "minute %d", minute)
		}
	})
}

// C19: an occurrence that is past when the loop wakes fires at once.
func TestC19OccurrenceInThePastFiresAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		s := minutely(t)
		r.since[s.Name] = time.Date(1999, 12, 31, 23, 59, 30, 0, time.UTC)
		defer r.start(t, &steady{}, s)()
		synctest.Wait()
		opened, _, _, _ := r.seen()
		require.Len(t, opened, 1)
	})
}

// C18: a run whose scheduler died between opening and freezing is found by its time, and
// one that cannot be frozen is tried again and does not hold up the others.
func TestC18OpenRunsAreFoundAndTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		r.err = errors.New("the source is away")
		stop := r.start(t, &steady{}, minutely(t))
		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		opened, frozen, _, _ := r.seen()
		require.Len(t, opened, 3)
		require.Empty(t, frozen)
		stop()
		r.mu.Lock()
		for at, run := range r.opened {
			require.Greater(t, run.Tries, 3, at)
			require.Less(t, run.Tries, 12, "%s: it backs off", at)
		}
		r.err = nil
		r.mu.Unlock()
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		_, frozen, _, _ = r.seen()
		require.GreaterOrEqual(t, len(frozen), 8)
	})
}

func TestNothingFiresWhileTheClockIsNotSteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		defer r.start(t, &steady{not: true}, minutely(t))()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		_, _, _, decided := r.seen()
		require.Zero(t, decided)
	})
}

// An alert on an increase sees no counter that comes into being with it.
func TestWhatAlertsWatchIsThereBeforeItHappens(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	_, err := NewRuns(RunOptions{Ledger: newRuns(), Watch: &steady{}, Schedules: []Schedule{*minutely(t)}, Metrics: registry})
	require.NoError(t, err)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP duly_occurrences_total Occurrences of schedules, by what became of them: fired, late, skipped, missed, or taken where the period had a run.
# TYPE duly_occurrences_total counter
duly_occurrences_total{outcome="missed",schedule="minutely"} 0
# HELP duly_run_failures_total Decisions, freezes and looks at runs that failed; they are made again.
# TYPE duly_run_failures_total counter
duly_run_failures_total{doing="firing"} 0
# HELP duly_run_refused_total Rows of selections that became no member; each is kept with its reason.
# TYPE duly_run_refused_total counter
duly_run_refused_total{schedule="minutely"} 0
`), "duly_occurrences_total", "duly_run_failures_total", "duly_run_refused_total"))
}

// More runs end in a day than there are looks at their end.
func TestRunsAreRetiredAsFastAsTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		r.old = 1700
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.change(func() {
			require.Zero(t, r.old)
			require.Positive(t, r.cleared)
		})
	})
}

// What is removed for good is not removed by a clock that may be wrong.
func TestNothingIsRetiredWhileTheClockIsNotSteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		r.old = 1
		defer r.start(t, &steady{not: true}, minutely(t))()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.change(func() {
			require.Equal(t, 1, r.old)
			require.Zero(t, r.cleared)
			require.Positive(t, r.figures)
		})
	})
}

// Alerts watch the figures of runs: what else fails does not freeze them.
func TestFiguresAreShownAlthoughRetiringFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		r.retiring = errors.New("no")
		defer r.start(t, &steady{}, minutely(t))()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.change(func() { require.Greater(t, r.figures, 5) })
	})
}

func TestFreezesRestLongerAndLonger(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Second, freezeRest(1))
	require.Equal(t, 2*time.Second, freezeRest(2))
	require.Equal(t, 5*time.Minute, freezeRest(30))
	require.Equal(t, time.Second, freezeRest(0))
}
