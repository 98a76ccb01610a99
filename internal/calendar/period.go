package calendar

import (
	"fmt"
	"iter"
	"time"
)

// Period is what an occurrence is called by: one run is made of each.
type Period string

// The periods, with what occurrences are called.
const (
	PeriodISOWeek    Period = "iso-week"   // 2026-W53; the year is that of the week's Thursday
	PeriodDate       Period = "date"       // 2026-09-30
	PeriodMonth      Period = "month"      // 2026-09
	PeriodHour       Period = "hour"       // 2026-11-01T01-04: hour, and offset from UTC, since a clock may show it twice
	PeriodOccurrence Period = "occurrence" // 2026-11-01T05:30:00Z: the instant
)

const periodRule = "iso-week, date, month, hour or occurrence"

// Periods are all periods.
func Periods() []Period {
	return []Period{PeriodISOWeek, PeriodDate, PeriodMonth, PeriodHour, PeriodOccurrence}
}

// PeriodOf is what the schedule calls an occurrence. It is the period of the day that
// the rule names, also where that was moved: the 1st of August that is moved to the
// 31st of July belongs to August. Two occurrences that fire are never called the same,
// which Compile has proved.
func (s *Schedule) PeriodOf(o Occurrence) string {
	wall := o.Named.midnight().Add(o.Wall.wall.Sub(o.Wall.Date().midnight()))
	switch s.period {
	case PeriodISOWeek:
		year, week := wall.ISOWeek()
		return fmt.Sprintf("%d-W%02d", year, week)
	case PeriodMonth:
		return wall.Format("2006-01")
	case PeriodHour:
		_, seconds := o.At.In(s.opens.location).Zone()
		return wall.Format("2006-01-02T15") + offsetText(seconds)
	case PeriodOccurrence:
		return o.At.UTC().Format(time.RFC3339)
	default:
		return o.Named.String()
	}
}

// Occurrence finds what the schedule calls by a period: the occurrence that fires, or
// else one that does not. false: there is none, or the text is no period of this kind.
// One that was moved by more than maxMove days is not found.
func (s *Schedule) Occurrence(period string) (Occurrence, bool) {
	first, last, ok := s.period.days(period)
	if !ok {
		return Occurrence{}, false
	}
	var skipped Occurrence
	for _, o := range s.between((first - maxMove).midnight(), (last + maxMove).midnight()) {
		switch {
		case s.PeriodOf(o) != period:
		case o.Skip == "":
			return o, true
		case skipped.At.IsZero():
			skipped = o
		}
	}
	return skipped, !skipped.At.IsZero()
}

// maxMove is how many days around a period are looked at for what was moved.
const maxMove = 40

// days are the first and the last day that a period's text speaks of.
func (p Period) days(text string) (first, last Date, ok bool) {
	var err error
	switch p {
	case PeriodISOWeek:
		var year, week int
		if _, err = fmt.Sscanf(text, "%4d-W%2d", &year, &week); err == nil {
			first = NewDate(year, time.January, 4) // which is in the first week
			first += Date(7*(week-1)) - Date(first.Weekday()+6)%7
		}
		last = first + 6
	case PeriodMonth:
		first, err = ParseDate(text + "-01")
		last = first + 30
	case PeriodOccurrence:
		var at time.Time
		at, err = time.Parse(time.RFC3339, text)
		first = Local{at.UTC()}.Date()
		last = first
	default:
		first, err = ParseDate(text[:min(len(text), len(time.DateOnly))])
		last = first
	}
	return first, last, err == nil
}

// offsetText is an offset from UTC as ISO 8601 has it: Z, -04 or +0530.
func offsetText(seconds int) string {
	if seconds == 0 {
		return "Z"
	}
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	text := fmt.Sprintf("%c%02d", sign, seconds/3600)
	if minutes := seconds / 60 % 60; minutes != 0 {
		text += fmt.Sprintf("%02d", minutes)
	}
	return text
}

// collision finds two occurrences that would be called the same. Where it finds none,
// there are none: what rules name is looked at for all months that there can be, of
// holidays for 40 years, and overlaps of the zone until 2100.
func (s *Schedule) collision() (a, b Occurrence, found bool) {
	if s.period == PeriodOccurrence {
		return a, b, false // merge leaves one an instant
	}
	if s.every > 0 {
		return s.intervalCollision()
	}
	if x, y, both := s.clocksOfOnePeriod(); both {
		if day, fires := s.firstDay(); fires {
			return s.named(day, x), s.named(day, y), true
		}
	}
	if x, y, both := s.daysOfOnePeriod(); both {
		return s.named(x, s.times[0]), s.named(y, s.times[0]), true
	}
	if s.overlap == OverlapBoth && s.period != PeriodHour {
		return s.overlapCollision()
	}
	return a, b, false
}

// named is what the rules name, before anything moves it.
func (s *Schedule) named(day Date, clock Clock) Occurrence {
	wall := day.At(clock)
	at, fit := wall.In(s.opens)
	return Occurrence{At: at, Wall: wall, Named: day, Fit: fit}
}

// clocksOfOnePeriod are two times of day that one period holds.
func (s *Schedule) clocksOfOnePeriod() (a, b Clock, found bool) {
	if s.period == PeriodHour {
		return s.clocksOfOneHour()
	}
	if len(s.times) < 2 {
		return 0, 0, false
	}
	return s.times[0], s.times[1], true
}

// daysOfOnePeriod are two days of one week or month on which it fires.
func (s *Schedule) daysOfOnePeriod() (a, b Date, found bool) {
	if s.period != PeriodMonth && s.period != PeriodISOWeek {
		return 0, 0, false
	}
	var last Date
	some := false
	for year, month := range s.months() {
		days := s.fires(year, month)
		for day := 1; day <= 31; day++ {
			if !days.has(day) {
				continue
			}
			now := NewDate(year, month, day)
			if some && s.together(last, now) {
				return last, now, true
			}
			last, some = now, true
		}
	}
	return 0, 0, false
}

// together reports whether two days lie in one week or month.
func (s *Schedule) together(a, b Date) bool {
	if s.period == PeriodISOWeek {
		return a.isoWeek() == b.isoWeek()
	}
	return a.String()[:len("2006-01")] == b.String()[:len("2006-01")]
}

// overlapCollision finds a time that an overlap makes fire twice in one period.
func (s *Schedule) overlapCollision() (a, b Occurrence, found bool) {
	for jump := range Jumps(s.opens, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)) {
		if jump.After >= jump.Before {
			continue
		}
		var last Occurrence
		for _, o := range s.between(jump.At.Add(-dayDuration), jump.At.Add(dayDuration)) {
			if o.Skip == "" && !last.At.IsZero() && s.PeriodOf(o) == s.PeriodOf(last) {
				return last, o, true
			}
			if o.Skip == "" {
				last = o
			}
		}
	}
	return a, b, false
}

// bounds are the lengths from which on an interval cannot fire twice in one period: a date
// may last for two days where a zone changes sides of the date line.
var bounds = map[Period]time.Duration{
	PeriodHour:    time.Hour,
	PeriodDate:    2 * dayDuration,
	PeriodISOWeek: 9 * dayDuration,
	PeriodMonth:   33 * dayDuration,
}

// intervalCollision walks through 40 years where the length alone does not decide.
func (s *Schedule) intervalCollision() (a, b Occurrence, found bool) {
	if s.every >= bounds[s.period] {
		return a, b, false
	}
	end := time.Date(2066, 1, 1, 0, 0, 0, 0, time.UTC)
	last := s.at(s.tick(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	for last.At.Before(end) {
		next := s.at(last.At.Add(s.every))
		if s.PeriodOf(last) == s.PeriodOf(next) {
			return last, next, true
		}
		last = next
	}
	return a, b, false
}

// Jump is a change of a zone's offset.
type Jump struct {
	// At is the first instant of the new offset, in UTC.
	At time.Time
	// Before and After are the offsets from UTC.
	Before, After time.Duration
}

// Forward is how far the clocks are put forward; negative is back.
func (j Jump) Forward() time.Duration { return j.After - j.Before }

// Jumps are the changes of a zone's offset in (after, until], in order.
func Jumps(z *Zone, after, until time.Time) iter.Seq[Jump] {
	return func(yield func(Jump) bool) {
		for {
			before, end := period(after, z)
			if end.IsZero() || end.After(until) {
				return
			}
			next, _ := period(end, z)
			if next != before && !yield(Jump{At: end, Before: before, After: next}) {
				return
			}
			after = end
		}
	}
}
