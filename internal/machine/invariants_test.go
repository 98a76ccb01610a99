package machine

import (
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/pkg/job"
)

// step is one decision, as the invariants look at it.
type step struct {
	before, after Row
	ev            Event
	now           time.Time
	change        Change
	// moved: something about the row changed that decides anything.
	moved bool
	// work are the emissions that announce the generation to workers; notices are
	// the others.
	work    []Emission
	notices int
}

// take makes a step with the given machine.
func take(next func(Row, Event, time.Time) (Row, Change), r Row, ev Event, now time.Time) *step {
	s := &step{before: r, ev: ev, now: now}
	s.after, s.change = next(r, ev, now)
	return complete(s)
}

// complete fills in what follows from a decision.
func complete(s *step) *step {
	heard := s.after
	heard.Reported = s.before.Reported // what was heard changes nothing but what is a copy
	s.moved = !same(s.before, heard)
	for _, e := range s.change.Emissions {
		if e.Dead {
			s.notices++
			continue
		}
		s.work = append(s.work, e)
	}
	return s
}

func (s *step) applied() bool { return s.change.Refused == Applied }

// same compares rows in everything but the policy in force, which is not the row's
// own. It is spelled out since it is asked a million times.
func same(a, b Row) bool {
	return a.Job == b.Job && a.Generation == b.Generation &&
		a.State == b.State && a.Waiting == b.Waiting && a.Hold == b.Hold && a.Reason == b.Reason &&
		a.Attempt == b.Attempt && a.Unclassified == b.Unclassified && a.Fence == b.Fence && a.Emission == b.Emission &&
		a.Created.Equal(b.Created) && a.Origin.Equal(b.Origin) && a.FirstReady.Equal(b.FirstReady) &&
		a.Due.Equal(b.Due) && a.Deadline.Equal(b.Deadline) && a.WakeAt.Equal(b.WakeAt) &&
		a.Worker == b.Worker && a.LeasedAt.Equal(b.LeasedAt) && a.Limit == b.Limit &&
		a.DoubtSince.Equal(b.DoubtSince) && a.DoubtUntil.Equal(b.DoubtUntil) &&
		a.Fixed == b.Fixed && a.Channel == b.Channel && a.Promises == b.Promises && a.Pinned == b.Pinned &&
		a.CancelRequested == b.CancelRequested && a.Closed == b.Closed && a.Announced == b.Announced &&
		a.Reported == b.Reported && a.Successor == b.Successor && a.LastClass == b.LastClass && a.LastCode == b.LastCode
}

// leasedOnce reports whether the event's fence may be that of a lease of the row.
func (s *step) leasedOnce() bool {
	return s.ev.Fence > 0 && s.ev.Fence <= s.before.Fence && !s.before.LeasedAt.IsZero()
}

// invariants are what every decision must keep, whatever row and event came in.
// Each says what it demands and reports whether the step keeps it.
var invariants = []struct {
	demands string
	keeps   func(*step) bool
}{
	{"what is refused leaves the row as it was, records nothing and emits nothing", func(s *step) bool {
		return s.applied() || (!s.moved && s.before.Reported == s.after.Reported && s.change.Record == nil && len(s.change.Emissions) == 0)
	}},
	{"what is applied is recorded, from the old state to the new one", func(s *step) bool {
		return !s.applied() || (s.change.Record != nil && s.change.Record.From == s.before.State && s.change.Record.To == s.after.State)
	}},
	{"cancelled changes no more", func(s *step) bool {
		return s.before.State != job.Cancelled || (!s.moved && len(s.change.Emissions) == 0)
	}},
	{"a generation with a successor changes no more", func(s *step) bool {
		return s.before.Current() || (!s.moved && len(s.change.Emissions) == 0)
	}},
	{"delivered stays delivered", func(s *step) bool {
		return s.before.State != job.Delivered || !s.moved
	}},
	{"doubt ends only by a success, a yes, or a no that was asked late enough", func(s *step) bool {
		if !s.before.InDoubt() || s.after.InDoubt() {
			return true
		}
		settled := s.before.DoubtUntil.Add(s.before.Promises.Settle)
		return s.after.State == job.Delivered ||
			(s.ev.Name == AnswerNo && s.before.State == job.Unknown && !s.ev.AskedAt.Before(settled) && !s.now.Before(settled))
	}},
	{"what is in doubt is scheduled, ready, leased or unknown", func(s *step) bool {
		return !s.after.InDoubt() || s.after.State.Pending() || s.after.State == job.Unknown
	}},
	{"what is unknown is in doubt", func(s *step) bool {
		return s.after.State != job.Unknown || s.after.InDoubt()
	}},
	{"doubt begins with the lease of an attempt that may have happened", func(s *step) bool {
		if s.before.InDoubt() || !s.after.InDoubt() {
			return true
		}
		return s.before.State == job.Leased && (s.ev.Name == MayBeDone || s.ev.Name == LeaseEnded) &&
			s.after.DoubtSince.Equal(s.before.LeasedAt)
	}},
	{"the first doubtful lease stays the first, the last possible byte never moves back", func(s *step) bool {
		return !s.before.InDoubt() || !s.after.InDoubt() ||
			(s.after.DoubtSince.Equal(s.before.DoubtSince) && !s.after.DoubtUntil.Before(s.before.DoubtUntil))
	}},
	{"an attempt that may have happened, or ended unreported, is doubt", func(s *step) bool {
		return !s.applied() || !s.moved || (s.ev.Name != MayBeDone && s.ev.Name != LeaseEnded) || s.after.InDoubt()
	}},
	{"ready is entered, and announced again, only with exactly one emission for now", func(s *step) bool {
		entered := s.after.State == job.Ready && (s.before.State != job.Ready || s.before.Emission != s.after.Emission)
		w := s.work
		return !entered || (len(w) == 1 && w[0].At.IsZero())
	}},
	{"a retry is written with exactly one emission, delayed until its wake_at", func(s *step) bool {
		entered := s.after.State == job.Scheduled && s.after.Waiting == job.WaitingRetry && s.before.Waiting != job.WaitingRetry
		w := s.work
		return !entered || (len(w) == 1 && w[0].At.Equal(s.after.WakeAt))
	}},
	{"work is announced only of what is ready or a retry, under the next number", func(s *step) bool {
		w := s.work
		if len(w) == 0 {
			return s.after.Emission == s.before.Emission
		}
		announced := s.after.State == job.Ready || s.after.Waiting == job.WaitingRetry
		return len(w) == 1 && announced && w[0].Number == s.before.Emission+1 && s.after.Emission == w[0].Number
	}},
	{"a lease, and nothing else, takes the next fence and counts an attempt", func(s *step) bool {
		if s.after.State == job.Leased && s.before.State != job.Leased {
			return s.ev.Name == Lease && s.after.Fence == s.before.Fence+1 && s.after.Attempt == s.before.Attempt+1 &&
				s.after.LeasedAt.Equal(s.now) && s.after.Worker == s.ev.Worker
		}
		returned := s.ev.Name == HandedBack && s.applied()
		return s.after.Fence == s.before.Fence && (s.after.Attempt == s.before.Attempt || (returned && s.after.Attempt == s.before.Attempt-1))
	}},
	{"a hand-back uncounts its attempt", func(s *step) bool {
		return s.ev.Name != HandedBack || !s.applied() || s.after.Attempt == s.before.Attempt-1
	}},
	{"only a reference of the newest emission leases", func(s *step) bool {
		return s.ev.Name != Lease || !s.applied() || s.after.State != job.Leased || s.ev.Emission == s.before.Emission
	}},
	{"nothing is leased that has expired, may not be repeated, or is early", func(s *step) bool {
		leased := s.after.State == job.Leased && s.before.State != job.Leased
		return !leased || (s.before.Expired(s.now) == "" && s.before.Repeatable(s.now) && !s.now.Before(s.before.WakeAt))
	}},
	{"a stale or future fence changes nothing but by success", func(s *step) bool {
		switch s.ev.Name {
		case NotDone, MayBeDone, HandedBack, LeaseEnded:
			return s.ev.Fence == s.before.Fence || !s.moved
		case AnswerYes, AnswerNo:
			return (s.ev.Fence == s.before.Fence && !s.before.LeasedAt.IsZero()) || !s.applied()
		default:
			return true
		}
	}},
	{"success wins everywhere but in cancelled", func(s *step) bool {
		if s.ev.Name != Done || !s.leasedOnce() || s.before.State == job.Delivered {
			return true
		}
		return s.applied() && (s.after.State == job.Delivered || s.before.State == job.Cancelled || !s.before.Current())
	}},
	{"yes wins everywhere but in cancelled", func(s *step) bool {
		answerable := s.ev.Name == AnswerYes && s.ev.Fence == s.before.Fence && !s.before.LeasedAt.IsZero()
		return !answerable || (s.applied() && (s.after.State == job.Delivered || s.before.State == job.Cancelled || !s.before.Current()))
	}},
	{"what a worker says of a lease that it had is never lost", func(s *step) bool {
		switch s.ev.Name {
		case Done, NotDone, MayBeDone:
			copied := s.before.Reported && s.ev.Fence == s.before.Fence
			return !s.leasedOnce() || s.change.Record != nil || copied
		default:
			return true
		}
	}},
	{"what is said again of the newest lease is neither recorded nor obeyed, unless it is a first success", func(s *step) bool {
		switch s.ev.Name {
		case HandedBack, Done, NotDone, MayBeDone:
			copied := s.before.Reported && s.ev.Fence == s.before.Fence
			return !copied || !s.applied() || (s.ev.Name == Done && s.before.State != job.Delivered)
		default:
			return true
		}
	}},
	{"what was heard of the newest lease is remembered until the next one", func(s *step) bool {
		if s.after.Fence != s.before.Fence {
			return !s.after.Reported
		}
		return s.after.Reported || !s.before.Reported
	}},
	{"a dead notice is emitted once, and only of what needs a person", func(s *step) bool {
		switch s.notices {
		case 0:
			return s.after.Announced == s.before.Announced
		case 1:
			needs := s.after.State == job.Quarantined || (s.after.State == job.Unknown && s.after.PersonOnly())
			return !s.before.Announced && s.after.Announced && needs
		default:
			return false
		}
	}},
	{"what needs a person was announced", func(s *step) bool {
		entered := s.moved && (s.after.State == job.Quarantined || (s.after.State == job.Unknown && s.after.PersonOnly()))
		return !entered || s.after.Announced
	}},
	{"quarantined has a reason of the closed set, an unknown one may note one, others have none", func(s *step) bool {
		known := slices.Contains(job.Reasons(), s.after.Reason)
		switch s.after.State {
		case job.Quarantined:
			return known
		case job.Unknown:
			return known || s.after.Reason == ""
		default:
			return s.after.Reason == ""
		}
	}},
	{"what waits says why and until when; nothing else waits", func(s *step) bool {
		r := s.after
		if r.State != job.Scheduled {
			return r.Waiting == "" && r.Hold == "" && r.WakeAt.IsZero() && r.PromoteAt().IsZero()
		}
		return r.Waiting != "" && !r.WakeAt.IsZero() && !r.PromoteAt().Before(r.WakeAt) && (r.Waiting == job.WaitingHeld) == (r.Hold != "")
	}},
	{"nothing waits for an instant that has passed", func(s *step) bool {
		return s.after.WakeAt.Equal(s.before.WakeAt) || s.after.WakeAt.IsZero() || !s.after.WakeAt.Before(s.now)
	}},
	{"a retry leaves its limit before the deadline, unless that is over or the receiver asked for more", func(s *step) bool {
		if s.after.Waiting != job.WaitingRetry || s.before.Waiting == job.WaitingRetry || s.after.Deadline.IsZero() {
			return true
		}
		p := s.after.Kind.Policy
		asked := s.now.Add(min(s.ev.Result.RetryAfter, p.Cap))
		return !s.after.WakeAt.After(latestOf(latestOf(s.now, s.after.Deadline.Add(-p.Limit)), asked))
	}},
	{"nothing is retried that has expired, is permanent or unclassified to its cap, or has had all its attempts", func(s *step) bool {
		retried := s.after.Waiting == job.WaitingRetry && s.before.Waiting != job.WaitingRetry
		p := s.before.Kind.Policy
		ended := s.after.Attempt >= p.MaxAttempts || s.after.LastClass == job.ClassPermanent || s.before.Expired(s.now) != "" ||
			(s.after.LastClass == job.ClassUnclassified && s.after.Unclassified >= p.UnclassifiedCap)
		return !retried || !ended
	}},
	{"a doubtful retry begins while its receiver dedupes", func(s *step) bool {
		retried := s.after.Waiting == job.WaitingRetry && s.before.Waiting != job.WaitingRetry
		return !retried || s.after.Repeatable(s.after.WakeAt)
	}},
	{"the first attempt fixes channel and promises for good", func(s *step) bool {
		if !s.before.Fixed {
			return !s.after.Fixed || s.after.State == job.Leased
		}
		return s.after.Fixed && s.after.Channel == s.before.Channel && s.after.Promises == s.before.Promises
	}},
	{"what was leased is fixed", func(s *step) bool {
		return s.after.LeasedAt.IsZero() || s.after.Fixed
	}},
	{"a cancel request is never forgotten, and never waits for another attempt", func(s *step) bool {
		if s.before.CancelRequested && !s.after.CancelRequested {
			return false
		}
		return !s.after.CancelRequested || (s.after.State != job.Scheduled && s.after.State != job.Ready)
	}},
	{"only what is unknown is closed", func(s *step) bool {
		return !s.after.Closed || s.after.State == job.Unknown
	}},
	{"identity, age and bounds are not an event's to change", func(s *step) bool {
		b, a := s.before, s.after
		return b.Job == a.Job && b.Generation == a.Generation && b.Created.Equal(a.Created) && b.Due.Equal(a.Due) && b.Deadline.Equal(a.Deadline) &&
			(b.Origin.IsZero() || b.Origin.Equal(a.Origin)) && (b.FirstReady.IsZero() || b.FirstReady.Equal(a.FirstReady))
	}},
	{"only a redrive of what is quarantined, or forced of what is unknown, has a successor", func(s *step) bool {
		if s.before.Successor == s.after.Successor {
			return true
		}
		eligible := s.before.State == job.Quarantined || (s.before.State == job.Unknown && s.ev.Forced && s.ev.Detail != "")
		return s.before.Successor == 0 && s.after.Successor == s.before.Generation+1 && s.ev.Name == Redriven && eligible
	}},
}

// broken returns what the step breaks: the demands of invariants, and the way forward.
func (s *step) broken(next func(Row, Event, time.Time) (Row, Change)) []string {
	var all []string
	for _, i := range invariants {
		if !i.keeps(s) {
			all = append(all, i.demands)
		}
	}
	if !s.moved {
		return all
	}
	if why := stuck(next, s.after, s.now); why != "" {
		all = append(all, "always a way forward: "+why)
	}
	return all
}

// stuck says what is missing for the machine, or a person, to move the row on;
// empty when there is a way. Only what ended well, was withdrawn or was followed by
// another generation needs none.
func stuck(next func(Row, Event, time.Time) (Row, Change), r Row, now time.Time) string {
	moves := func(ev Event, at time.Time) bool {
		after, c := next(r, ev, latestOf(at, now))
		return c.Refused == Applied && (after.State != r.State || after.Successor != r.Successor || after.Closed != r.Closed)
	}
	switch {
	case !r.Current():
		return ""
	case r.State == job.Scheduled && !moves(Event{Name: Due}, r.PromoteAt()):
		return "the scheduler cannot promote it"
	case r.State == job.Ready && !moves(Event{Name: Lease, Emission: r.Emission, Worker: "w"}, now):
		return "no worker can lease it and nothing ends it"
	case r.State == job.Leased && !moves(Event{Name: LeaseEnded, Fence: r.Fence}, now):
		return "its lease cannot end"
	case r.State == job.Unknown && !moves(Event{Name: AnswerYes, Fence: r.Fence}, now):
		return "nobody can answer yes"
	case r.State == job.Unknown && !moves(Event{Name: AnswerNo, Fence: r.Fence, AskedAt: r.DoubtUntil.Add(r.Promises.Settle)}, r.DoubtUntil.Add(r.Promises.Settle)):
		return "nobody can answer no"
	case r.State == job.Unknown && !r.Closed && !moves(Event{Name: Close}, r.ClosesAt()):
		return "it is asked about for ever"
	case r.State == job.Unknown && !moves(Event{Name: Redriven, Forced: true, Detail: "seen"}, now):
		return "no person can redrive it"
	case r.State == job.Quarantined && !moves(Event{Name: Redriven}, now):
		return "no person can redrive it"
	}
	return ""
}

func (s *step) String() string {
	return fmt.Sprintf("row   %s\nevent %+v\nnow   %s\nafter %s\nchange refused=%q emissions=%+v record=%+v",
		show(s.before), s.ev, s.now.Sub(epoch), show(s.after), s.change.Refused, s.change.Emissions, s.change.Record)
}

// epoch is the instant from which tests count.
var epoch = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// show writes a row with instants counted from the epoch.
func show(r Row) string {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(epoch).String()
	}
	return fmt.Sprintf("%s/%s/%s g%d attempt=%d unclassified=%d fence=%d emission=%d last=%s reason=%s wake=%s deadline=%s first=%s origin=%s leased=%s doubt=%s..%s cancel=%t closed=%t announced=%t successor=%d promises=%+v",
		r.State, r.Waiting, r.Hold, r.Generation, r.Attempt, r.Unclassified, r.Fence, r.Emission, r.LastClass, r.Reason, at(r.WakeAt), at(r.Deadline),
		at(r.FirstReady), at(r.Origin), at(r.LeasedAt), at(r.DoubtSince), at(r.DoubtUntil), r.CancelRequested, r.Closed, r.Announced, r.Successor, r.promises())
}
