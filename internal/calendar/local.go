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
//
// It walks the zone's periods of constant offset around the wall time. In each the
// wall time has one candidate, which counts if it lies in the period.
func (l Local) In(z *Zone) (time.Time, Fit) {
	var found, jump time.Time
	for at := l.wall.Add(-farthest); ; {
		offset, end := period(at, z)
		candidate := l.wall.Add(-offset)
		if inside := !candidate.Before(at) && (end.IsZero() || candidate.Before(end)); inside {
			if !found.IsZero() {
				return found, Repeated
			}
			found = candidate
		}
		if end.IsZero() || end.After(l.wall.Add(farthest)) {
			break
		}
		next, _ := period(end, z)
		if jump.IsZero() && !l.wall.Before(end.Add(offset)) && l.wall.Before(end.Add(next)) {
			jump = end
		}
		at = end
	}
	if found.IsZero() {
		return jump, Skipped
	}
	return found, Once
}

// period returns the offset that the zone has at an instant and when that ends;
// zero is never.
func period(at time.Time, z *Zone) (offset time.Duration, end time.Time) {
	t := at.In(z.location)
	_, seconds := t.Zone()
	_, end = t.ZoneBounds()
	return time.Duration(seconds) * time.Second, end.UTC()
}
