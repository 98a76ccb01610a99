package calendar

import "time"

// Due is when the job of a recipient is due: at the occurrence's instant or, by
// ClockRecipient, when the clocks of the recipient's own zone show its wall time, with
// the schedule's rules of gap and overlap. recipient is nil where a recipient has no
// zone; then the schedule's counts.
//
// A recipient whose clocks are before those of EarliestZone may be due before the
// occurrence: it is late from the beginning.
func (s *Schedule) Due(o Occurrence, recipient *Zone) time.Time {
	if s.clock != ClockRecipient {
		return o.At
	}
	if recipient == nil {
		recipient = s.zone
	}
	switch r := o.Wall.read(recipient); {
	case r.fit == Skipped && s.gap == GapShift:
		return r.shifted
	case r.fit == Repeated && s.overlap == OverlapSecond:
		return r.second
	default:
		return r.first
	}
}

// LastDue is the instant after which no recipient of an occurrence can be due, wherever
// in the world: 12 hours behind UTC. Without ClockRecipient it is the occurrence's.
func (s *Schedule) LastDue(o Occurrence) time.Time {
	if s.clock != ClockRecipient {
		return o.At
	}
	return o.Wall.wall.Add(latestOffset)
}

// latestOffset is how far the clocks that are farthest behind are behind UTC. They have
// no jumps that could put anything off further, which a test holds the zone data to.
const latestOffset = 12 * time.Hour
