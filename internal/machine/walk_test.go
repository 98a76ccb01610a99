package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

// walker lives through one job, generation by generation, with whatever policy,
// promises and events are drawn.
type walker struct {
	now       time.Time
	row       Row
	older     []Row
	announced int // dead notices of the current generation
}

func drawKind(t *rapid.T) Kind {
	between := func(name string, from, to time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(from), int64(to)).Draw(t, name))
	}
	p := DefaultPolicy()
	p.Limit = between("limit", time.Second, time.Minute)
	p.MaxAttempts = rapid.Int32Range(1, 6).Draw(t, "max_attempts")
	p.MaxAge = between("max_age", time.Minute, 48*time.Hour)
	p.MaxLifetime = between("max_lifetime", time.Minute, 200*time.Hour)
	p.Base = between("base", time.Millisecond, time.Minute)
	p.Cap = between("cap", time.Millisecond, time.Hour)
	p.Jitter = rapid.Float64Range(0, 1).Draw(t, "jitter")
	p.UnclassifiedCap = rapid.Int32Range(1, 3).Draw(t, "unclassified_cap")
	promises := DefaultPromises(p.Limit)
	promises.Lookup = rapid.SampledFrom([]Means{"", MeansHTTP, MeansSQL, MeansGo}).Draw(t, "lookup")
	if rapid.Bool().Draw(t, "dedupes") {
		promises.Window = between("window", time.Minute, 24*time.Hour)
	}
	return Kind{Name: "k", Lane: "l", Channel: "http", Policy: p, Promises: promises}
}

func (w *walker) event(t *rapid.T) Event {
	r := w.row
	ev := Event{Name: rapid.SampledFrom(Names()).Draw(t, "event"), Worker: "w", Emission: r.Emission, Fence: r.Fence, Hold: job.HoldRate}
	if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
		ev.Emission -= rapid.Int32Range(-1, 2).Draw(t, "older emission")
		ev.Fence -= rapid.Int64Range(-1, 2).Draw(t, "older fence")
	}
	ev.Until = w.now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Hour)).Draw(t, "hold")))
	ev.AskedAt = w.now.Add(-time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "asked before")))
	ev.Forced = rapid.Bool().Draw(t, "forced")
	ev.Detail = rapid.SampledFrom([]string{"", "seen"}).Draw(t, "detail")
	switch ev.Name {
	case Done:
		ev.Result = job.Done(nil)
	case NotDone:
		ev.Result = job.NotDone(rapid.SampledFrom(job.Classes()).Draw(t, "class"), job.CodeReceiverBusy, "busy")
		ev.Result.RetryAfter = time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "retry after"))
	case MayBeDone:
		ev.Result = job.MayBeDone(job.CodeTimeout, "slow")
	case HandedBack:
		ev.Result = job.NotBegun("draining")
	case Close:
		if ev.Forced {
			ev.Fence = 0
		}
	default:
	}
	return ev
}

// pass lets time go on: a little, or to where the row waits for.
func (w *walker) pass(t *rapid.T) {
	w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pass"))).Truncate(time.Microsecond)
	if rapid.Bool().Draw(t, "until it goes on") {
		w.now = latestOf(w.now, w.row.PromoteAt())
	}
}

func (w *walker) step(t *rapid.T) {
	w.pass(t)
	ev := w.event(t)
	if ev.Name == Redriven {
		w.redrive(t, ev)
		return
	}
	s := take(Next, w.row, ev, w.now)
	require.Empty(t, s.broken(Next), s.String())
	w.announced += s.notices
	require.LessOrEqual(t, w.announced, 1, s.String())
	w.row = s.after
}

func (w *walker) redrive(t *rapid.T, ev Event) {
	var c Correction
	if rapid.Bool().Draw(t, "later deadline") {
		c.Deadline = w.now.Add(time.Hour)
	}
	if rapid.Bool().Draw(t, "later start") {
		c.NotBefore = w.now.Add(10 * time.Minute)
	}
	pred, succ, change := Redrive(w.row, ev, c, w.now)
	if change.Refused != Applied {
		require.True(t, same(pred, w.row))
		return
	}
	require.Empty(t, wrongSuccessorButLater(w.row, pred, succ))
	require.Empty(t, stuck(Next, succ, w.now))
	require.Empty(t, succ.Expired(latestOf(w.now, c.NotBefore)), "a redrive that can only expire was let through")
	again, _, refused := Redrive(pred, ev, c, w.now)
	require.Equal(t, Stale, refused.Refused, "a generation has one successor")
	require.True(t, same(again, pred))
	w.older, w.row, w.announced = append(w.older, pred), succ, 0
}

// wrongSuccessorButLater is wrongSuccessor for a successor that may begin later, so
// that its first emission is still to come.
func wrongSuccessorButLater(before, pred, succ Row) string {
	if succ.State == job.Scheduled && succ.Emission == before.Emission {
		succ.Emission++
	}
	return wrongSuccessor(before, pred, succ)
}

func TestAnyLifeOfAJobKeepsEveryInvariant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &walker{now: epoch}
		var deadline time.Time
		if rapid.Bool().Draw(t, "deadline") {
			deadline = epoch.Add(time.Duration(rapid.Int64Range(int64(time.Second), int64(10*time.Hour)).Draw(t, "deadline in")))
		}
		due := epoch.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "due in")))
		w.row, _ = Begin(drawKind(t), due, deadline, w.now)
		w.row.Job = rapid.Int64Range(1, 1<<62).Draw(t, "job")
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			w.step(t)
		}
		for _, r := range w.older {
			require.False(t, r.Current())
		}
	})
}

func TestReplaceTakesABodyOnlyBeforeTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for r := range rows {
		for _, due := range []time.Time{{}, now, now.Add(time.Hour)} {
			after, change := Replace(r, due, now.Add(2*time.Hour), now)
			begun := r.Attempt > 0 || r.Generation > 1 || !r.Current() || (r.State != job.Scheduled && r.State != job.Ready)
			if begun {
				require.Equal(t, NotEligible, change.Refused)
				require.True(t, same(r, after))
			}
		}
	}
	fresh, _ := Begin(testKind(DefaultPromises(time.Second)), now.Add(time.Minute), time.Time{}, epoch)
	for name, c := range map[string]struct {
		before func(Row) Row
		due    time.Time
		state  job.State
		emits  int
	}{
		"later":               {before: func(r Row) Row { return r }, due: now.Add(time.Hour), state: job.Scheduled},
		"due now":             {before: func(r Row) Row { return r }, due: now, state: job.Ready, emits: 1},
		"ready keeps its":     {before: becomes(Event{Name: Due}), due: now, state: job.Ready},
		"ready to later":      {before: becomes(Event{Name: Due}), due: now.Add(time.Hour), state: job.Scheduled},
		"held stays held":     {before: becomes(Event{Name: Hold, Hold: job.HoldPaused, Until: now.Add(time.Hour)}), due: now, state: job.Scheduled},
		"held to later":       {before: becomes(Event{Name: Hold, Hold: job.HoldPaused}), due: now.Add(time.Hour), state: job.Scheduled},
		"a zero due is now":   {before: func(r Row) Row { return r }, state: job.Ready, emits: 1},
		"past due is due now": {before: func(r Row) Row { return r }, due: epoch, state: job.Ready, emits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := c.before(fresh)
			after, change := Replace(before, c.due, now.Add(2*time.Hour), now)
			require.Equal(t, Applied, change.Refused)
			require.Equal(t, c.state, after.State)
			require.Len(t, change.Emissions, c.emits)
			require.Equal(t, now.Add(2*time.Hour), after.Deadline)
			require.Empty(t, stuck(Next, after, latestOf(now, after.WakeAt)))
			if c.due.After(now) {
				require.Equal(t, c.due, after.WakeAt)
				require.Zero(t, after.FirstReady, "its age has not begun")
			}
		})
	}
}

// becomes brings about a row by an event a minute after the due time.
func becomes(ev Event) func(Row) Row {
	return func(r Row) Row {
		after, _ := Next(r, ev, now.Add(time.Minute))
		return after
	}
}
