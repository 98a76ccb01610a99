package calendar

import (
	"errors"
	"fmt"
	"time"
)

// ErrLocal is what every refused wall time matches with errors.Is.
var ErrLocal = errors.New("it must be a date and time that exist, such as 2026-09-30T17:00:00")

// Local is a wall time: what a calendar and a clock on the wall show, of no zone.
// The zero value is 0001-01-01T00:00:00.
type Local struct {
	wall time.Time // in UTC, which has neither gaps nor overlaps
}

// forms are what ParseLocal takes; fractions of a second may follow the seconds.
var forms = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"}

// ParseLocal reads a wall time: a date, 'T' or a space, and a time with or without
// seconds. Anything else, also with an offset or of a date that does not exist
// (30 February), is refused with ErrLocal.
func ParseLocal(s string) (Local, error) {
	for _, form := range forms {
		if t, err := time.Parse(form, s); err == nil {
			return Local{t}, nil
		}
	}
	return Local{}, fmt.Errorf("local time %q: %w", short(s), ErrLocal)
}

// LocalAt is what the clocks of the zone show at an instant.
func LocalAt(t time.Time, z *Zone) Local {
	_, offset := t.In(z.location).Zone()
	return Local{t.UTC().Add(time.Duration(offset) * time.Second)}
}

// String is the wall time in the form 2026-09-30T17:00:00, with a fraction of a
// second where there is one. ParseLocal reads it.
func (l Local) String() string { return l.wall.Format("2006-01-02T15:04:05.999999999") }

// Fit says how a wall time lies in a zone.
type Fit int

const (
	// Once: the wall time exists once.
	Once Fit = iota
	// Skipped: it lies in a gap, and was moved to the first valid instant.
	Skipped
	// Repeated: it lies in an overlap, and the first was taken.
	Repeated
)

// String is "once", "skipped" or "repeated".
func (f Fit) String() string {
	switch f {
	case Skipped:
		return "skipped"
	case Repeated:
		return "repeated"
	default:
		return "once"
	}
}

// farthest is more than any zone was ever away from UTC.
const farthest = 17 * time.Hour

// In resolves the wall time in a zone, in UTC: to its instant, to the first of two
// in an overlap, and to the first valid instant after it in a gap.
func (l Local) In(z *Zone) (time.Time, Fit) {
	r := l.read(z)
	return r.first, r.fit
}

// reading is what a wall time means in a zone.
type reading struct {
	fit Fit
	// first is its instant: the first of two in an overlap, the jump in a gap.
	first time.Time
	// second is the other instant of an overlap.
	second time.Time
	// shifted is, in a gap, the instant by the offset before the jump: as much later
	// than the jump as the wall time is later than the beginning of the gap.
	shifted time.Time
}

// read walks the zone's periods of constant offset around the wall time. In each the
// wall time has one candidate, which counts if it lies in the period.
func (l Local) read(z *Zone) reading {
	var found, jump, shifted time.Time
	for at := l.wall.Add(-farthest); ; {
		offset, end := period(at, z)
		candidate := l.wall.Add(-offset)
		if inside := !candidate.Before(at) && (end.IsZero() || candidate.Before(end)); inside {
			if !found.IsZero() {
				return reading{fit: Repeated, first: found, second: candidate}
			}
			found = candidate
		}
		if end.IsZero() || end.After(l.wall.Add(farthest)) {
			break
		}
		next, _ := period(end, z)
		if jump.IsZero() && !l.wall.Before(end.Add(offset)) && l.wall.Before(end.Add(next)) {
			jump, shifted = end, candidate
		}
		at = end
	}
	if found.IsZero() {
		return reading{fit: Skipped, first: jump, shifted: shifted}
	}
	return reading{first: found}
}

// settled is more than any clock ever jumped: so far from a jump every wall time
// exists once.
const settled = 48 * time.Hour

// reader reads many wall times of one zone: far from jumps it only subtracts.
type reader struct {
	zone   *Zone
	offset time.Duration
	lo, hi time.Time // wall times in [lo, hi) exist once, at offset; both zero: none
}

// calm reports whether all wall times in [from, until) exist once, at r.offset.
func (r *reader) calm(from, until time.Time) bool {
	if inside(r, from) && !until.After(r.hi) {
		return true
	}
	start, end := from.In(r.zone.location).ZoneBounds()
	_, seconds := from.In(r.zone.location).Zone()
	r.offset = time.Duration(seconds) * time.Second
	r.lo, r.hi = time.Time{}, endOfTime
	if !start.IsZero() {
		r.lo = start.UTC().Add(r.offset + settled)
	}
	if !end.IsZero() {
		r.hi = end.UTC().Add(r.offset - settled)
	}
	return inside(r, from) && !until.After(r.hi)
}

func inside(r *reader, at time.Time) bool { return !at.Before(r.lo) && at.Before(r.hi) }

func (r *reader) read(l Local) reading {
	if r.calm(l.wall, l.wall) {
		return reading{first: l.wall.Add(-r.offset)}
	}
	return l.read(r.zone)
}

// period returns the offset that the zone has at an instant and when that ends, always
// later than the instant; zero is never. The offset behind the end may be the same.
func period(at time.Time, z *Zone) (offset time.Duration, end time.Time) {
	t := at.In(z.location)
	_, seconds := t.Zone()
	_, end = t.ZoneBounds()
	if !end.IsZero() && !end.After(at) {
		// Behind the table of a zone's jumps, the standard library takes all years for
		// 365 days long, and ends the last day of a leap year before it begins.
		end = time.Date(at.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Duration(seconds) * time.Second, end.UTC()
}
