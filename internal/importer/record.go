package importer

import (
	"time"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/pkg/job"
)

// record is a row as it was written: texts, and what is already known to be wrong.
type record struct {
	line                               int
	kind, key, subject, period         string
	destination, due, deadline, zoneIn string
	payload                            []byte
	refused                            []*job.Refusal
}

// text finds the field of a column that holds a text; nil where there is none.
func (r *record) text(column string) *string {
	switch column {
	case columnKind:
		return &r.kind
	case columnKey:
		return &r.key
	case columnSubject:
		return &r.subject
	case columnPeriod:
		return &r.period
	case columnDestination:
		return &r.destination
	case columnDue:
		return &r.due
	case columnDeadline:
		return &r.deadline
	case columnZone:
		return &r.zoneIn
	}
	return nil
}

func (r *record) refuse(field, value string, rule job.Rule, more string) {
	r.refused = append(r.refused, job.Refuse(field, value, rule, more))
}

// spec makes the record a request that passes every rule that can be checked without
// the ledger, or says why not: then the refusals are not empty.
func (r record) spec(o Options) (job.Spec, []*job.Refusal) {
	if r.isRefused(wholeRow) {
		return job.Spec{}, r.refused // it could not be read: what it lacks says nothing
	}
	s := job.Spec{Kind: r.kind, Key: r.key, Subject: r.subject, Period: r.period, Destination: r.destination, Payload: r.payload}
	zone := r.zone()
	s.Due, _ = r.instant(columnDue, r.due, zone)
	s.Deadline, s.DeadlineLocal = r.instant(columnDeadline, r.deadline, zone)
	if s.DeadlineLocal != "" {
		s.DeadlineZone = zone.Name()
	}
	for _, refusal := range job.Refusals(s.Validate(o.now(), o.Limits)) {
		if !r.isRefused(refusal.Field) {
			r.refused = append(r.refused, refusal)
		}
	}
	if !r.isRefused(columnDestination) && !r.isRefused(columnPayload) {
		if refusal := o.Checkers.Check(s.Kind, s.Destination, s.Payload); refusal != nil {
			r.refused = append(r.refused, refusal)
		}
	}
	return s, r.refused
}

// isRefused reports whether the field was refused already: one reason is enough.
func (r record) isRefused(field string) bool {
	for _, refusal := range r.refused {
		if refusal.Field == field {
			return true
		}
	}
	return false
}

// zone is the zone that the row names; nil where it names none, or no zone.
func (r *record) zone() *calendar.Zone {
	if r.zoneIn == "" {
		return nil
	}
	zone, err := calendar.LoadZone(r.zoneIn)
	if err != nil {
		r.refuse(columnZone, r.zoneIn, job.RuleUnknownZone, "")
		return nil
	}
	return zone
}

// instant reads a time with an offset, or a local one in the row's zone. local is the
// wall time in that zone, where there is one.
func (r *record) instant(column, text string, zone *calendar.Zone) (at time.Time, local string) {
	if text == "" {
		return time.Time{}, ""
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if zone != nil {
			local = calendar.LocalAt(at, zone).String()
		}
		return at.UTC(), local
	}
	wall, err := calendar.ParseLocal(text)
	switch {
	case err != nil:
		r.refuse(column, text, job.RuleTime, "")
	case zone == nil && r.zoneIn == "":
		r.refuse(column, text, job.RuleTime, "a local time needs the row's zone")
	case zone != nil:
		at, _ = wall.In(zone)
		return at, wall.String()
	}
	return time.Time{}, ""
}
