package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"duly.dev/duly/pkg/job"
)

// scribe lives through one job as a walker does, and keeps what a ledger keeps of it.
type scribe struct {
	walker
	h History
	// noted: the next lease leaves an event besides its lease row.
	noted bool
}

func newScribe(kind Kind, due, deadline time.Time) *scribe {
	s := &scribe{walker: walker{now: epoch}}
	s.row, _ = Begin(kind, due, deadline, s.now)
	s.row.Job = 1
	s.keep()
	return s
}

// keep stores the rows as a ledger does.
func (s *scribe) keep() {
	s.row = rounded(s.row)
	s.h.Rows = append(slices.Clone(s.older), s.row)
}

// write keeps a record, and the lease row of a lease.
func (s *scribe) write(r *Record) {
	e := Logged{At: s.now.Truncate(time.Microsecond), Generation: s.row.Generation, Record: *r, Policy: s.row.Kind.Hash()}
	e.WakeAt = e.WakeAt.Truncate(time.Microsecond)
	if e.To == job.Leased && e.Name == Lease {
		s.h.Leases = append(s.h.Leases, e)
		if !s.noted {
			return
		}
	}
	s.h.Events = append(s.h.Events, e)
}

// happen lets an event happen, and reports whether it changed something.
func (s *scribe) happen(ev Event) bool {
	s.now = s.now.Truncate(time.Microsecond)
	switch ev.Name {
	case Due, Lost, Lease, Hold, Expire, Cancel:
		ev.Fence = 0 // nobody who tells of these knows it
	default:
	}
	row, change := Next(s.row, ev, s.now)
	if change.Refused != Applied {
		return false
	}
	s.row = row
	s.write(change.Record)
	s.keep()
	return true
}

func (s *scribe) redriven(ev Event, c Correction) bool {
	s.now, ev.Fence = s.now.Truncate(time.Microsecond), 0
	pred, succ, change := Redrive(s.row, ev, c, s.now)
	if change.Refused != Applied {
		return false
	}
	s.write(change.Record)
	s.older, s.row = append(s.older, rounded(pred)), succ
	s.h.Redrives = append(s.h.Redrives, RedriveNote{Predecessor: pred.Generation, Successor: succ.Generation, Forced: ev.Forced})
	s.keep()
	return true
}

func (s *scribe) replace(due, deadline time.Time) bool {
	s.now = s.now.Truncate(time.Microsecond)
	row, change := Replace(s.row, due, deadline, s.now)
	if change.Refused != Applied {
		return false
	}
	s.row = row
	s.write(change.Record)
	s.keep()
	return true
}

// live lets something happen that is drawn.
func (s *scribe) live(t *rapid.T) {
	s.pass(t)
	s.noted = rapid.Bool().Draw(t, "noted")
	switch rapid.IntRange(0, 20).Draw(t, "what") {
	case 0:
		due := s.now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "replaced due")))
		s.replace(due.Truncate(time.Microsecond), s.row.Deadline)
	case 1:
		if len(s.older) > 0 { // evidence comes for an older generation
			s.late(Event{Name: Done, Fence: 1, Result: job.Done(nil), Worker: "w"})
		}
	default:
		if ev := s.event(t); ev.Name != Redriven {
			s.happen(ev)
		} else {
			s.redriven(ev, Correction{})
		}
	}
}

func (s *scribe) late(ev Event) {
	row, change := Next(s.older[0], ev, s.now)
	if change.Refused == Applied {
		s.older[0] = row
		r := *change.Record
		s.h.Events = append(s.h.Events, Logged{At: s.now, Generation: 1, Record: r, Policy: row.Kind.Hash()})
		s.keep()
	}
}

func (s *scribe) agrees(t require.TestingT) {
	broken, partly := Fold(s.h)
	require.Empty(t, broken)
	require.Zero(t, partly)
}

func drawLife(t *rapid.T) *scribe {
	var deadline time.Time
	if rapid.Bool().Draw(t, "deadline") {
		deadline = epoch.Add(time.Duration(rapid.Int64Range(int64(time.Second), int64(10*time.Hour)).Draw(t, "deadline in"))).Truncate(time.Microsecond)
	}
	due := epoch.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "due in"))).Truncate(time.Microsecond)
	s := newScribe(drawKind(t), latestOf(epoch, due), deadline)
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		s.live(t)
	}
	return s
}

func TestFoldingWhatHappenedGivesTheRow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { drawLife(t).agrees(t) })
}

func TestFoldNeverBlamesAnUnknownPolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawLife(t)
		other := drawKind(t)
		for i := range s.h.Rows {
			s.h.Rows[i].Kind = other
		}
		broken, _ := Fold(s.h)
		require.Empty(t, broken, "decisions of another policy are not judged by this one")
	})
}

func TestFoldNeverBlamesWhatIsKeptNoMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawLife(t)
		since := epoch.Add(time.Duration(rapid.Int64Range(0, int64(s.now.Sub(epoch))+1).Draw(t, "since")))
		gone := func(e Logged) bool { return e.At.Before(since) }
		s.h.Since = since
		s.h.Events = slices.DeleteFunc(slices.Clone(s.h.Events), gone)
		s.h.Leases = slices.DeleteFunc(slices.Clone(s.h.Leases), gone)
		broken, _ := Fold(s.h)
		require.Empty(t, broken)
	})
}

// Every change of state that the machine makes is one that leads names.
func TestNothingLeadsElsewhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for _, e := range drawLife(t).h.Events {
			if e.Late && e.From == e.To {
				continue
			}
			require.Contains(t, leads[e.Name], e.To, string(e.Name))
		}
	})
}

func TestFoldNoticesWhatIsMissing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawLife(t)
		var moves []int
		for i, e := range s.h.Events {
			if e.Name == Replaced {
				return // where it began is read from what is there
			}
			if e.From != e.To && e.Name != Lease { // its lease row says the same
				moves = append(moves, i)
			}
		}
		n := len(moves) + len(s.h.Leases)
		if n == 0 {
			return
		}
		h := s.h
		switch i := rapid.IntRange(0, n-1).Draw(t, "missing"); {
		case i < len(moves):
			h.Events = slices.Delete(slices.Clone(h.Events), moves[i], moves[i]+1)
		default:
			h.Leases = slices.Delete(slices.Clone(h.Leases), i-len(moves), i-len(moves)+1)
		}
		broken, _ := Fold(h)
		require.Len(t, broken, 1, "one break is told once")
	})
}

func TestFoldNoticesEveryEditOfARow(t *testing.T) {
	t.Parallel()
	edits := map[string]func(*Row){
		"state":            func(r *Row) { r.State = job.Cancelled },
		"attempt":          func(r *Row) { r.Attempt++ },
		"fence":            func(r *Row) { r.Fence++ },
		"emission":         func(r *Row) { r.Emission++ },
		"waiting":          func(r *Row) { r.Waiting = job.WaitingHeld },
		"hold":             func(r *Row) { r.Hold = job.HoldRate },
		"reason":           func(r *Row) { r.Reason = job.ReasonTooOld },
		"wake_at":          func(r *Row) { r.WakeAt = r.WakeAt.Add(time.Microsecond) },
		"cancel_requested": func(r *Row) { r.CancelRequested = true },
		"closed":           func(r *Row) { r.Closed = true },
		"worker":           func(r *Row) { r.Worker = "someone" },
		"leased_at":        func(r *Row) { r.LeasedAt = r.LeasedAt.Add(time.Microsecond) },
		"unclassified":     func(r *Row) { r.Unclassified++ },
		"class":            func(r *Row) { r.LastClass = job.ClassPermanent },
		"code":             func(r *Row) { r.LastCode = job.CodeRejected },
		"origin_at":        func(r *Row) { r.Origin = r.Origin.Add(-time.Hour) },
		"first_ready_at":   func(r *Row) { r.FirstReady = r.FirstReady.Add(-time.Hour) },
		"limit":            func(r *Row) { r.Limit += time.Second },
		"doubt_since":      func(r *Row) { r.DoubtSince = time.Time{} },
		"doubt_until":      func(r *Row) { r.DoubtUntil = r.DoubtUntil.Add(time.Second) },
		"terms":            func(r *Row) { r.Promises.Window = time.Second },
		"announced":        func(r *Row) { r.Announced = true },
		"reported":         func(r *Row) { r.Reported = false },
	}
	kind := testKind(Promises{Window: time.Hour, Settle: time.Second, ResolveWithin: time.Hour})
	s := newScribe(kind, epoch, time.Time{})
	require.True(t, s.happen(Event{Name: Lease, Emission: 1, Worker: "w"}))
	require.True(t, s.happen(Event{Name: MayBeDone, Fence: 1, Worker: "w", Result: job.MayBeDone(job.CodeTimeout, "slow")}))
	s.agrees(t)
	for _, c := range compared {
		if c.name == "successor" {
			continue // breaks the chain of generations
		}
		edit, ok := edits[c.name]
		require.True(t, ok, c.name)
		h := s.h
		h.Rows = slices.Clone(h.Rows)
		edit(&h.Rows[0])
		broken, _ := Fold(h)
		require.Len(t, broken, 1, c.name)
		require.Equal(t, RuleRow, broken[0].Rule)
		require.Contains(t, broken[0].Stored, c.name+"=")
		require.NotContains(t, broken[0].Stored, ",", "nothing else is blamed")
		require.Contains(t, broken[0].String(), c.name)
	}
}

func TestFoldNoticesWhatWasForged(t *testing.T) {
	t.Parallel()
	made := func() *scribe {
		s := newScribe(testKind(DefaultPromises(time.Second)), epoch, time.Time{})
		require.True(t, s.happen(Event{Name: Lease, Emission: 1, Worker: "w"}))
		require.True(t, s.happen(Event{Name: NotDone, Fence: 1, Worker: "w", Result: job.NotDone(job.ClassPermanent, job.CodeRejected, "no")}))
		require.True(t, s.redriven(Event{Name: Redriven, Detail: "corrected"}, Correction{}))
		s.agrees(t)
		return s
	}
	for name, c := range map[string]struct {
		forge func(*scribe)
		rule  Rule
		in    int32
	}{
		"an event from nowhere": {func(s *scribe) {
			s.write(&Record{Name: Done, From: job.Leased, To: job.Delivered, Attempt: 1, Fence: 2, Emission: 2})
		}, RuleLease, 2},
		"an event that the state does not take": {func(s *scribe) {
			s.write(&Record{Name: Close, From: job.Ready, To: job.Unknown, Fence: 1, Emission: 2})
		}, RuleEvent, 2},
		"another reason": {func(s *scribe) { s.h.Events[0].Why = "unclassified" }, RuleEvent, 1},
		"a lease that is no lease": {func(s *scribe) {
			s.h.Leases = append(s.h.Leases, Logged{At: s.now, Generation: 2, Record: Record{Fence: 7, Attempt: 1}, Policy: s.row.Kind.Hash()})
		}, RuleEvent, 2},
		"an attempt that was counted twice": {func(s *scribe) { s.h.Leases[0].Attempt = 2 }, RuleEvent, 1},
		"a lease behind the end": {func(s *scribe) {
			s.h.Leases = append(s.h.Leases, Logged{At: s.now, Generation: 1, Record: Record{Fence: 2, Attempt: 2}, Policy: s.row.Kind.Hash()})
		}, RuleEvent, 1},
		"a successor that nobody decided": {func(s *scribe) { s.h.Redrives = nil }, RuleRedrive, 2},
		"a decision without a successor": {func(s *scribe) {
			s.h.Redrives = append(s.h.Redrives, RedriveNote{Predecessor: 2, Successor: 3})
		}, RuleRedrive, 2},
		"a lost generation":     {func(s *scribe) { s.h.Rows = s.h.Rows[:1] }, RuleGenerations, 1},
		"two current ones":      {func(s *scribe) { s.h.Rows[0].Successor = 0 }, RuleGenerations, 1},
		"a lost successor note": {func(s *scribe) { s.h.Events = s.h.Events[:1] }, RuleRow, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := made()
			c.forge(s)
			broken, _ := Fold(s.h)
			require.NotEmpty(t, broken)
			require.Equal(t, c.rule, broken[0].Rule, broken[0].String())
			require.Equal(t, c.in, broken[0].Generation)
			require.Len(t, broken, 1, "%v", broken)
		})
	}
}
