package calendar

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Skip says why an occurrence does not fire.
type Skip string

// The reasons for which an occurrence does not fire by its own schedule.
const (
	// SkipGap: the clocks leave its time out, and the schedule says to skip those.
	SkipGap Skip = "gap"
	// SkipDay: its day is no business day, and the schedule says to skip those.
	SkipDay Skip = "non_business_day"
	// SkipMerged: it was moved to the instant of another, which fires.
	SkipMerged Skip = "merged"
	// SkipRunning: the run before it was not over.
	SkipRunning Skip = "running"
)

// Occurrence is one time at which a schedule fires, or would.
type Occurrence struct {
	// At is its instant, in UTC. Of one in a gap that is skipped, it is the jump.
	At time.Time
	// Wall is the wall time that it means, on the day on which it takes place, in the
	// zone Opens.
	Wall Local
	// Named is the day that its rule names. It differs from the day of Wall where that
	// was moved, and gives the period.
	Named Date
	// Closed is the holiday or day of the weekend because of which Named was moved or
	// skipped.
	Closed string
	// Fit says how Wall lies in its zone.
	Fit Fit
	// Second is the second instant of a wall time in an overlap.
	Second bool
	// Skip is why it does not fire; "" fires.
	Skip Skip
}

// Moved reports whether it takes place on another day than its rule names.
func (o Occurrence) Moved() bool { return o.Named != o.Wall.Date() }

// All walks along the occurrences after an instant, in order, those too that do not
// fire. It ends in the year 2200, where the instants end that Duly takes.
func (s *Schedule) All(after time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		for days := 1; after.Before(endOfTime); {
			until := after.Add(time.Duration(days) * dayDuration)
			if s.every > 0 { // never many at once
				until = s.tick(after)
			}
			found := s.between(after, until)
			for _, o := range found {
				if !o.At.Before(endOfTime) || !yield(o) {
					return
				}
			}
			after = until
			if days = min(2*days, maxChunk); len(found) > 0 {
				days = denseChunk
			}
		}
	}
}

// Next is the first occurrence after an instant that fires; false where there is none
// before the year 2201.
func (s *Schedule) Next(after time.Time) (Occurrence, bool) {
	for o := range s.All(after) {
		if o.Skip == "" {
			return o, true
		}
	}
	return Occurrence{}, false
}

const (
	// maxChunk is how many days are looked at together where nothing is found.
	maxChunk = 512
	// denseChunk is the same where something is: few, since there may be many a day.
	denseChunk = 4
)

// tick is the first instant of an interval behind one.
func (s *Schedule) tick(after time.Time) time.Time {
	n := floorDiv(after.Unix()-s.anchor.Unix(), int64(s.every/time.Second))
	return s.anchor.Add(time.Duration(n+1) * s.every)
}

// between are the occurrences in (after, until], in order.
func (s *Schedule) between(after, until time.Time) []Occurrence {
	if s.every > 0 {
		var all []Occurrence
		for at := s.tick(after); !at.After(until); at = at.Add(s.every) {
			all = append(all, s.at(at))
		}
		return all
	}
	found := s.span(LocalAt(after, s.opens).Date()-margin, LocalAt(until, s.opens).Date()+margin)
	return slices.DeleteFunc(found, func(o Occurrence) bool { return !o.At.After(after) || o.At.After(until) })
}

// margin is how many days an occurrence's instant lies at most from its day: a jump over
// a whole day moves it by one.
const margin = 2

// at is the occurrence of an interval at an instant.
func (s *Schedule) at(at time.Time) Occurrence {
	wall := LocalAt(at, s.zone)
	r := wall.read(s.zone)
	return Occurrence{At: at.UTC(), Wall: wall, Named: wall.Date(), Fit: r.fit, Second: r.fit == Repeated && at.Equal(r.second)}
}

// span are the occurrences that take place on the days from first to last, in order.
func (s *Schedule) span(first, last Date) []Occurrence {
	g := generator{Schedule: s, reader: reader{zone: s.opens}}
	var all []Occurrence
	for day := first; day <= last; day++ {
		all = g.day(all, day)
	}
	slices.SortStableFunc(all, func(a, b Occurrence) int { return a.At.Compare(b.At) })
	merge(all)
	return all
}

// merge lets one of several at the same instant fire: the one that means it, else the
// first that was moved there.
func merge(all []Occurrence) {
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].At.Equal(all[i].At) {
			j++
		}
		if j > i+1 {
			group := all[i:j]
			slices.SortStableFunc(group, func(a, b Occurrence) int { return cmp.Compare(displaced(a), displaced(b)) })
			fires := false
			for k := range group {
				switch {
				case group[k].Skip != "":
				case fires:
					group[k].Skip = SkipMerged
				default:
					fires = true
				}
			}
		}
		i = j
	}
}

// displaced is how far an occurrence is from what its rule names: not, by a jump, by days.
func displaced(o Occurrence) int {
	switch {
	case o.Moved():
		return 2
	case o.Fit == Skipped:
		return 1
	default:
		return 0
	}
}

// generator makes the occurrences of days, one after the other.
type generator struct {
	*Schedule
	reader

	year  int
	month time.Month
	days  monthDays
}

// names reports whether the rules name a day.
func (g *generator) names(d Date) bool {
	year, month, day := d.Date()
	if year != g.year || month != g.month {
		g.year, g.month, g.days = year, month, g.rules.month(year, month)
	}
	return g.days.has(day)
}

// sources are the days whose occurrences take place on a day, in order.
func (g *generator) sources(target Date) []Date {
	own := func() []Date {
		if g.names(target) {
			return []Date{target}
		}
		return nil
	}
	if g.closed != DayPrevious && g.closed != DayNext {
		return own()
	}
	if g.business.Closed(target) != "" {
		return nil
	}
	days := own()
	by := Date(1) // those behind it move here, until the next business day
	if g.closed == DayNext {
		by = -1
	}
	for n, day := 1, target+by; n < maxClosed && g.business.Closed(day) != ""; n, day = n+1, day+by {
		if g.names(day) {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days
}

// day appends the occurrences that take place on a day.
func (g *generator) day(all []Occurrence, target Date) []Occurrence {
	for _, named := range g.sources(target) {
		o := Occurrence{Named: named}
		if g.closed == DaySkip || named != target {
			o.Closed = g.business.Closed(named)
		}
		if g.closed == DaySkip && o.Closed != "" {
			o.Skip = SkipDay
		}
		for _, clock := range g.times {
			o.Wall = target.At(clock)
			all = g.instants(all, o, g.read(o.Wall))
		}
	}
	return all
}

// instants appends what a wall time means by the rules of gap and overlap.
func (s *Schedule) instants(all []Occurrence, o Occurrence, r reading) []Occurrence {
	o.Fit, o.At = r.fit, r.first
	switch r.fit {
	case Skipped:
		switch s.gap {
		case GapShift:
			o.At = r.shifted
		case GapSkip:
			if s.elapsed {
				return all // by elapsed time, nothing is left out
			}
			if o.Skip == "" {
				o.Skip = SkipGap
			}
		case GapFirst:
		}
		return append(all, o)
	case Repeated:
		if s.overlap != OverlapSecond {
			all = append(all, o)
		}
		if s.overlap != OverlapFirst {
			o.At, o.Second = r.second, true
			all = append(all, o)
		}
		return all
	default:
		return append(all, o)
	}
}

// newest are the n newest occurrences in (after, until] that keep wants, in order.
func (s *Schedule) newest(n int, after, until time.Time, keep func(Occurrence) bool) []Occurrence {
	var all []Occurrence
	for days := 1; n > len(all) && until.After(after); days = min(2*days, maxChunk) {
		from := until.AddDate(0, 0, -days)
		if s.every > 0 {
			from = until.Add(-time.Duration(n) * s.every)
		}
		if from.Before(after) {
			from = after
		}
		found := s.between(from, until)
		found = slices.DeleteFunc(found, func(o Occurrence) bool { return !keep(o) })
		all = append(found, all...)
		until = from
	}
	return all[max(0, len(all)-n):]
}

// count counts the occurrences in (after, until], those that fire and those that do
// not. Its work grows with the days, not with the occurrences: on days that are far
// from any jump every time of day counts.
func (s *Schedule) count(after, until time.Time) (fire, skip int) {
	if !until.After(after) {
		return 0, 0
	}
	if s.every > 0 {
		first := s.tick(after)
		if first.After(until) {
			return 0, 0
		}
		return int(until.Sub(first)/s.every) + 1, 0
	}
	tally := func(all []Occurrence) {
		for _, o := range all {
			switch {
			case !o.At.After(after) || o.At.After(until):
			case o.Skip == "":
				fire++
			default:
				skip++
			}
		}
	}
	first, last := LocalAt(after, s.opens).Date(), LocalAt(until, s.opens).Date()
	g := generator{Schedule: s, reader: reader{zone: s.opens}}
	slow := first - margin // the first day that is not counted yet
	for day := first + margin; day <= last-margin; day++ {
		if !g.calm(day.midnight(), (day + 1).midnight()) {
			continue
		}
		if slow < day {
			tally(s.span(slow, day-1))
		}
		slow = day + 1
		switch sources := g.sources(day); {
		case len(sources) == 0:
		case g.closed == DaySkip && g.business.Closed(day) != "":
			skip += len(s.times)
		default:
			fire += len(s.times)
			skip += (len(sources) - 1) * len(s.times)
		}
	}
	tally(s.span(slow, last+margin))
	return fire, skip
}
