package calendar

import (
	"slices"
	"time"
)

// Firing is an occurrence that is to be fired now.
type Firing struct {
	Occurrence

	// Late: its window had passed, and catch-up fires it.
	Late bool
}

// Span are occurrences of one fate. There may be hundreds of thousands after a year, so
// that they are counted and not listed. The zero Span is none.
type Span struct {
	Count       int
	First, Last Occurrence
}

// Decision says what is to be done with a schedule at an instant.
type Decision struct {
	// Fire are the occurrences to fire, in order.
	Fire []Firing
	// Missed are those that nobody fired in time, and that catch-up does not fire.
	Missed Span
	// Skipped are those that do not fire by the schedule's own rules, each with its
	// reason: those of the last week, and at most MaxCatchUp. SkippedBefore are the others.
	Skipped       []Occurrence
	SkippedBefore Span
	// Waiting reports that an occurrence waits for the run before it to end.
	Waiting bool
	// Through is the instant up to which everything is decided; it is what the next
	// decision is given as since.
	Through time.Time
	// ClockWentBack: since was behind now, so that occurrences between them come due
	// again. Their periods tell which of them were fired.
	ClockWentBack bool
	// Next is the next instant to decide at; zero is never.
	Next time.Time
}

// Wait is how long it is from now until Next, and never negative; false where there is
// no next.
func (d Decision) Wait(now time.Time) (time.Duration, bool) {
	return max(0, d.Next.Sub(now)), !d.Next.IsZero()
}

// Decide says which occurrences are due, and what becomes of each. since is Through of
// the decision before, or the instant of the last occurrence that was recorded, or when
// the schedule was first seen; running says whether a run of it is not over.
//
// What is due and within its window fires. Of what is older, the catch-up policy fires
// none, the newest (unless a newer one fires in its window), or the newest few, and the
// others are missed. However long nobody looked, the decision is made in work that grows
// with the days only, and the next one goes on behind it.
//
// A clock that went back does not stop the schedule until it is where it was: what lies
// between now and since comes due once more, and is not fired twice because its period
// is taken.
func (s *Schedule) Decide(since, now time.Time, running bool) Decision {
	d := Decision{Through: now, ClockWentBack: since.After(now)}
	fresh := since
	if cutoff := now.Add(-s.window); cutoff.After(since) {
		fresh = cutoff
	}
	d.Fire = s.inWindow(fresh, now, &d)
	s.overdue(since, fresh, &d)
	behind := s.behind(running, &d)
	s.skipped(since, &d)
	d.Skipped = append(d.Skipped, behind...)
	slices.SortStableFunc(d.Skipped, func(a, b Occurrence) int { return a.At.Compare(b.At) })
	ahead := d.Through
	if d.Waiting {
		ahead = now // or the loop would spin until the run is over
	}
	if next, ok := s.Next(ahead); ok {
		d.Next = next.At
	}
	return d
}

// inWindow are the occurrences that fire in time, at most MaxCatchUp at once: the
// decision ends with the last of them.
func (s *Schedule) inWindow(after, now time.Time, d *Decision) (fire []Firing) {
	for o := range s.All(after) {
		switch {
		case o.At.After(now):
			return fire
		case o.Skip != "":
		case len(fire) == MaxCatchUp:
			d.Through = fire[len(fire)-1].At
			return fire
		default:
			fire = append(fire, Firing{Occurrence: o})
		}
	}
	return fire
}

// overdue applies the catch-up policy to what lies in (since, fresh].
func (s *Schedule) overdue(since, fresh time.Time, d *Decision) {
	due, _ := s.count(since, fresh)
	if due == 0 {
		return
	}
	most := 0
	switch {
	case s.catchUp == CatchUpAll:
		most = s.catchUpMax
	case s.catchUp == CatchUpLatest && len(d.Fire) == 0:
		most = 1
	}
	late := s.newest(most, since, fresh, fires)
	for i, o := range late {
		d.Fire = slices.Insert(d.Fire, i, Firing{o, true})
	}
	if d.Missed.Count = due - len(late); d.Missed.Count > 0 {
		first, _ := s.Next(since)
		before := fresh
		if len(late) > 0 {
			before = late[0].At.Add(-time.Nanosecond)
		}
		d.Missed.First = first
		for _, last := range s.newest(1, since, before, fires) {
			d.Missed.Last = last
		}
	}
}

func fires(o Occurrence) bool { return o.Skip == "" }

// skipped lists what the schedule itself leaves out, and counts what is older, or too much.
func (s *Schedule) skipped(since time.Time, d *Decision) {
	_, all := s.count(since, d.Through)
	if all == 0 {
		return
	}
	listed := since
	if week := d.Through.Add(-7 * dayDuration); week.After(since) {
		listed = week
	}
	d.Skipped = s.newest(min(all, MaxCatchUp), listed, d.Through, skips)
	if len(d.Skipped) > 0 {
		listed = d.Skipped[0].At.Add(-time.Nanosecond)
	}
	if n := all - len(d.Skipped); n > 0 {
		first, last := s.leftOut(since, listed)
		if first.At.IsZero() { // all are at the instant of the first that is listed
			first, last = d.Skipped[0], d.Skipped[0]
		}
		d.SkippedBefore = Span{Count: n, First: first, Last: last}
	}
}

func skips(o Occurrence) bool { return o.Skip != "" }

// leftOut are the first and the last in (after, until] that do not fire. Its work grows
// with the days, as count's: only those of two days are made.
func (s *Schedule) leftOut(after, until time.Time) (first, last Occurrence) {
	narrow := func(begin bool) []Occurrence {
		from, to := after, until
		for to.Sub(from) > dayDuration {
			middle := from.Add(to.Sub(from) / 2)
			_, early := s.count(from, middle)
			_, late := s.count(middle, to)
			if early > 0 && (begin || late == 0) {
				to = middle
			} else {
				from = middle
			}
		}
		return slices.DeleteFunc(s.between(from, to), fires)
	}
	if all := narrow(true); len(all) > 0 {
		first = all[0]
	}
	if all := narrow(false); len(all) > 0 {
		last = all[len(all)-1]
	}
	return first, last
}

// behind applies the policy of runs that are not over: only the first fires, and only if
// nothing runs. With RunWait the others stay due, with RunSkip they are returned as
// skipped.
func (s *Schedule) behind(running bool, d *Decision) (skipped []Occurrence) {
	free := 1
	if running {
		free = 0
	}
	if s.running == RunAllow || len(d.Fire) <= free {
		return nil
	}
	rest := d.Fire[free:]
	d.Fire = d.Fire[:free:free]
	if s.running == RunWait {
		d.Waiting, d.Through = true, rest[0].At.Add(-time.Second) // occurrences are whole seconds apart
		return nil
	}
	for _, f := range rest {
		f.Skip = SkipRunning
		skipped = append(skipped, f.Occurrence)
	}
	return skipped
}
