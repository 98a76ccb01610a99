package machine

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// A check that finds nothing proves something only if it finds what is there. Each
// mutant breaks one rule of the machine; the exploration must find, in the world
// that is named, the guarantee that falls with it.
var mutants = []struct {
	breaks  string
	in      string // the universe
	falls   string // what the finding must say
	subject func() subject
}{
	{"a lease that ended unreported counts as a failure", "neither", "G1", recast(func(c transitions) {
		c[LeaseEnded][job.Leased] = cell{do: func(t *transition) { t.end(t.bound()) }}
	})},
	{"what may have happened is retried though the receiver does not dedupe", "lookup", "G1", recast(func(c transitions) {
		c[MayBeDone][job.Leased] = cell{do: func(t *transition) { t.retry() }}
	})},
	{"the window is taken for endless", "window", "may not be repeated", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		promises := r.Promises
		if r.Promises.Window > 0 {
			r.Promises.Window = 100 * unit
		}
		after, c := next(r, ev, now)
		if after.Fixed && r.Fixed {
			after.Promises = promises
		}
		return after, c
	})},
	{"the window counts from the last doubtful attempt", "window, more leases", "G1", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if (ev.Name == MayBeDone || ev.Name == LeaseEnded) && r.State == job.Leased && ev.Fence == r.Fence && r.InDoubt() {
			r.DoubtSince = r.LeasedAt
		}
		return next(r, ev, now)
	})},
	{"settle is not waited for", "neither", "G8", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if ev.Name == AnswerNo {
			ev.AskedAt = now
			r.DoubtUntil = epoch.Add(-time.Hour)
		}
		return next(r, ev, now)
	})},
	{"an answer counts from when it came, not from when it was asked", "neither", "G8", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if ev.Name == AnswerNo {
			ev.AskedAt = now
		}
		return next(r, ev, now)
	})},
	{"only the last doubtful attempt bounds the last possible byte", "window, more leases", "never moves back", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if (ev.Name == MayBeDone || ev.Name == LeaseEnded) && r.State == job.Leased && ev.Fence == r.Fence && r.InDoubt() {
			r.DoubtUntil = time.Time{}
			after, c := next(r, ev, now)
			after.DoubtUntil = now
			return after, c
		}
		return next(r, ev, now)
	})},
	{"doubt is forgotten with the next failure", "window", "G8", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if ev.Name == NotDone && ev.Fence == r.Fence {
			r.DoubtSince, r.DoubtUntil = time.Time{}, time.Time{}
		}
		return next(r, ev, now)
	})},
	{"what expires in doubt is quarantined", "window, deadline", "G8", recast(func(c transitions) {
		quarantine := func(t *transition) {
			if t.row.Expired(t.now) == "" {
				t.refuse(NotExpired)
				return
			}
			t.row.DoubtSince, t.row.DoubtUntil = time.Time{}, time.Time{}
			t.quarantine(job.ReasonDeadline)
		}
		c[Expire] = map[job.State]cell{job.Scheduled: {do: quarantine}, job.Ready: {do: quarantine}}
	})},
	{"what is in doubt can be cancelled", "window", "G8", recast(func(c transitions) {
		c[Cancel][job.Scheduled] = cell{do: func(t *transition) {
			t.row.DoubtSince, t.row.DoubtUntil = time.Time{}, time.Time{}
			t.to(job.Cancelled, "cancelled")
		}}
	})},
	{"a leased job is cancelled at once", "neither", "G8", recast(func(c transitions) {
		c[Cancel][job.Leased] = cell{do: func(t *transition) { t.to(job.Cancelled, "cancelled") }}
	})},
	{"an unknown outcome is redriven without force", "neither", "nobody forced", func() subject {
		s := theMachine()
		s.redrive = func(r Row, ev Event, c Correction, now time.Time) (Row, Row, Change) {
			ev.Forced, ev.Detail = true, "none"
			pred, succ, change := Redrive(r, ev, c, now)
			return pred, succ, change
		}
		return s
	}},
	{"a redrive changes the original", "neither", "G9", func() subject {
		s := theMachine()
		s.redrive = func(r Row, ev Event, c Correction, now time.Time) (Row, Row, Change) {
			pred, succ, change := Redrive(r, ev, c, now)
			pred.Attempt = 0
			return pred, succ, change
		}
		return s
	}},
	{"a late report changes what was redriven", "neither, forced", "changes no more", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		r.Successor = 0
		return next(r, ev, now)
	})},
	{"a stale fence settles", "window", "stale", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if ev.Name == NotDone {
			ev.Fence = r.Fence
		}
		return next(r, ev, now)
	})},
	{"what is leased can be leased again", "neither", "fence", recast(func(c transitions) {
		c[Lease][job.Leased] = cell{do: (*transition).lease}
	})},
	{"a lease keeps the fence", "neither", "fence", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		after, c := next(r, ev, now)
		if ev.Name == Lease && after.State == job.Leased && r.Fence > 0 {
			after.Fence = r.Fence
		}
		return after, c
	})},
	{"a late success is dropped", "neither", "success wins", recast(func(c transitions) {
		delete(c[Done], job.Unknown)
	})},
	{"a hand-back counts", "neither", "uncounts", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		after, c := next(r, ev, now)
		if ev.Name == HandedBack && c.Refused == Applied {
			after.Attempt++
		}
		return after, c
	})},
	{"ready is entered without an emission", "neither", "emission", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		after, c := next(r, ev, now)
		if ev.Name == HandedBack && after.State == job.Ready {
			c.Emissions = nil
		}
		return after, c
	})},
	{"an expired retry waits for ever", "neither, deadline", "way forward", recast(func(c transitions) {
		c[Due][job.Scheduled] = cell{do: func(t *transition) {
			if t.row.Expired(t.now) != "" || t.now.Before(t.row.PromoteAt()) {
				t.refuse(Early)
				return
			}
			t.ready("due")
		}}
		delete(c[Expire], job.Scheduled)
	})},
	{"what is unknown is never closed", "lookup", "way forward", recast(func(c transitions) {
		delete(c, Close)
	})},
	{"the dead notice is sent twice", "lookup", "dead notice", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		if ev.Name == Close || ev.Name == AnswerNo {
			r.Announced = false
		}
		return next(r, ev, now)
	})},
	{"the last attempt is followed by another", "window", "all its attempts", wrap(func(next decider, r Row, ev Event, now time.Time) (Row, Change) {
		kind := r.Kind
		r.Kind.Policy.MaxAttempts = 100
		after, c := next(r, ev, now)
		after.Kind = kind
		return after, c
	})},
}

type decider func(Row, Event, time.Time) (Row, Change)

// wrap makes a mutant that stands before or behind the machine.
func wrap(mutant func(next decider, r Row, ev Event, now time.Time) (Row, Change)) func() subject {
	return func() subject {
		s := theMachine()
		s.next = func(r Row, ev Event, now time.Time) (Row, Change) { return mutant(Next, r, ev, now) }
		return s
	}
}

// recast makes a mutant with other cells in its table.
func recast(change func(transitions)) func() subject {
	return func() subject {
		c := make(transitions, len(table))
		for name, line := range table {
			c[name] = maps.Clone(line)
		}
		change(c)
		s := theMachine()
		s.next = c.next
		return s
	}
}

func TestTheExplorationFindsEveryMutant(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.breaks, func(t *testing.T) {
			t.Parallel()
			u, ok := universes(m.subject())[m.in]
			require.True(t, ok, m.in)
			u.suspicious = true
			found, worlds := u.explore(func(wrong string) bool { return strings.Contains(wrong, m.falls) })
			require.NotNil(t, found, "%d worlds, and nothing found", worlds)
			t.Logf("%d worlds: %s", worlds, found)
		})
	}
}
