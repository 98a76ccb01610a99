package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// The columns of a selection that have a meaning of their own. Besides them it has those
// that the key and the deadline name.
const (
	ColumnSubject     = "subject"
	ColumnDestination = "destination"
	ColumnZone        = "zone"
	ColumnPayload     = "payload"
)

// noPayload is the payload of a selection without one.
const noPayload = "{}"

// Schedule is a schedule of runs: when, of which kind, and for whom.
type Schedule struct {
	Name, Kind string
	When       *calendar.Schedule
	// Key makes the operation keys of its jobs.
	Key calendar.KeyTemplate
	// Query yields its recipients; Source is the database that it is asked of, and empty
	// for the ledger's own.
	Query, Source string
	// Deadline makes the deadlines of its jobs; nil where they have none.
	Deadline *calendar.DeadlineRule
	// MaxPayload bounds a payload, in bytes.
	MaxPayload int
	// LateBound: the destinations of its jobs are asked for right before an attempt; a row
	// may have none.
	LateBound bool
	// Check says what the kind's channel has against a destination or a payload. Optional.
	Check func(destination string, payload []byte) *job.Refusal
}

// opening asks for the run of an occurrence.
func (s *Schedule) opening(o calendar.Occurrence, cause machine.RunCause, actor string) machine.Opening {
	return machine.Opening{
		Period: s.When.PeriodOf(o), At: o.At, Local: o.Wall.String(), Zone: s.When.Opens().Name(), Cause: cause, Actor: actor,
	}
}

// selection says how a run is frozen: of its occurrence, which is as the run keeps it, the
// instant and the wall time matter; everything else is as the schedule says now.
func (s *Schedule) selection(r machine.Run) (machine.Selection, error) {
	wall, err := calendar.ParseLocal(r.Local)
	if err != nil {
		return machine.Selection{}, fmt.Errorf("the run's wall time: %w", err)
	}
	o := calendar.Occurrence{At: r.At, Wall: wall}
	return machine.Selection{
		Query: s.Query, Source: s.Source, ZoneData: calendar.Release(),
		Recipient: func(row machine.Columns) machine.Recipient { return s.recipient(r.Period, o, row) },
	}, nil
}

// recipient makes a request of a row, or says why it is none: what the run keeps of it.
func (s *Schedule) recipient(period string, o calendar.Occurrence, row machine.Columns) machine.Recipient {
	spec, refused := s.request(period, o, row)
	if refused == nil {
		// Whether a deadline has passed says the ledger, by its own clock.
		if all := job.Refusals(spec.Validate(time.Time{}, job.Limits{MaxPayload: s.MaxPayload, KnownZone: calendar.KnownZone})); len(all) > 0 {
			refused = all[0]
		}
	}
	if refused == nil && s.Check != nil {
		refused = s.Check(spec.Destination, spec.Payload)
	}
	return machine.Recipient{Spec: spec, Refused: refused}
}

func (s *Schedule) request(period string, o calendar.Occurrence, row machine.Columns) (job.Spec, *job.Refusal) {
	text := func(column string) string {
		v, _ := row(column)
		return v
	}
	spec := job.Spec{Kind: s.Kind, Period: period, Subject: text(ColumnSubject), Destination: text(ColumnDestination), Payload: []byte(noPayload)}
	if payload, ok := row(ColumnPayload); ok {
		spec.Payload = []byte(payload)
	}
	var err error
	if spec.Key, err = s.Key.Expand(period, row); err != nil {
		return spec, job.Refuse("key", "", job.RuleRequired, err.Error())
	}
	if spec.Destination == "" && !s.LateBound {
		return spec, job.Refuse(ColumnDestination, "", job.RuleRequired, "")
	}
	var zone *calendar.Zone
	if name, ok := row(ColumnZone); ok {
		if zone, err = calendar.LoadZone(name); err != nil {
			return spec, job.Refuse(ColumnZone, name, job.RuleUnknownZone, "")
		}
	}
	spec.Due = s.When.Due(o, zone)
	return spec, s.setDeadline(&spec, o, zone, row)
}

// setDeadline resolves the deadline, once: a later release of the zone data changes
// nothing about it.
func (s *Schedule) setDeadline(spec *job.Spec, o calendar.Occurrence, zone *calendar.Zone, row machine.Columns) *job.Refusal {
	if s.Deadline == nil {
		return nil
	}
	in := calendar.DeadlineInput{Day: o.Wall.Date(), Due: spec.Due, Recipient: zone}
	if column := s.Deadline.Column(); column != "" {
		if text, ok := row(column); ok {
			// A timestamp's day is what it shows.
			text, _, _ = strings.Cut(strings.Replace(text, "T", " ", 1), " ")
			day, err := calendar.ParseDate(text)
			if err != nil {
				return job.Refuse(column, text, job.RuleTime, "the deadline counts from it: it must be a date such as 2026-09-30")
			}
			in.On = &day
		}
	}
	d, err := s.Deadline.Resolve(in)
	if errors.Is(err, calendar.ErrNoDate) {
		return job.Refuse(s.Deadline.Column(), "", job.RuleRequired, "the deadline counts from it")
	}
	if err != nil {
		return job.Refuse("deadline", "", job.RuleTime, err.Error())
	}
	spec.Deadline, spec.DeadlineZone, spec.DeadlineLocal = d.At, d.Zone.Name(), d.Local.String()
	return nil
}

// decide says what is to be done with the schedule at a moment.
func (s *Schedule) decide(m machine.Moment) (machine.Firing, calendar.Decision) {
	d := s.When.Decide(m.Since, m.Now, m.Running)
	f := machine.Firing{Through: d.Through}
	for _, o := range d.Fire {
		cause := machine.RunFired
		if o.Late {
			cause = machine.RunLate
		}
		f.Open = append(f.Open, s.opening(o.Occurrence, cause, "scheduler"))
	}
	for _, o := range d.Skipped {
		f.Without = append(f.Without, machine.Occurrence{At: o.At, Outcome: machine.OccurrenceSkipped, Why: skipped(o), Period: s.When.PeriodOf(o)})
	}
	if d.SkippedBefore.Count > 0 {
		f.Without = append(f.Without, s.span(d.SkippedBefore, machine.OccurrenceSkipped, "left out by the schedule's own rules; they are listed one by one for a week"))
	}
	if d.Missed.Count > 0 {
		f.Without = append(f.Without, s.span(d.Missed, machine.OccurrenceMissed, s.missed(m)))
	}
	return f, d
}

// span is what is recorded of occurrences of one fate: one row, with the periods by which a
// person may ask for the runs of the first and the last.
func (s *Schedule) span(all calendar.Span, outcome machine.OccurrenceOutcome, why string) machine.Occurrence {
	o := machine.Occurrence{
		At: all.First.At, Last: all.Last.At, Count: int64(all.Count), Outcome: outcome, Why: why, Period: s.When.PeriodOf(all.First),
	}
	if all.Count > 1 {
		o.LastPeriod = s.When.PeriodOf(all.Last)
	}
	return o
}

// missed says in words why nobody fired occurrences in time.
func (s *Schedule) missed(m machine.Moment) string {
	if m.Running && s.When.WhileRunning() == calendar.RunWait {
		return "the run before it was not over within its window, and catch-up does not fire it"
	}
	return "no scheduler fired it within its window, and catch-up does not"
}

// skipped says in words why an occurrence does not fire.
func skipped(o calendar.Occurrence) string {
	switch o.Skip {
	case calendar.SkipGap:
		return "the clocks leave out " + o.Wall.String()
	case calendar.SkipDay:
		return "no business day: " + o.Closed
	case calendar.SkipMerged:
		return "moved to the instant of another, which fires"
	case calendar.SkipRunning:
		return "the run before it was not over"
	default:
		return string(o.Skip)
	}
}

// PeriodError says that a schedule has no occurrence that is called so.
type PeriodError struct{ Schedule, Period, Example string }

// Error says what such a period looks like.
func (e *PeriodError) Error() string {
	return fmt.Sprintf("schedule %s has no occurrence of period %q near now; its next is %s", e.Schedule, e.Period, e.Example)
}

// near is how far from now the occurrence of a period is looked for, either way.
const near = 400 * 24 * time.Hour

// Opening asks for the run of a period because a person wants it. The period must be that
// of an occurrence which fires, a year around now at most: *PeriodError.
func (s *Schedule) Opening(period, actor string, now time.Time) (machine.Opening, error) {
	if o, ok := s.When.Occurrence(period); ok && o.Skip == "" && o.At.Sub(now).Abs() <= near {
		return s.opening(o, machine.RunManual, actor), nil
	}
	e := &PeriodError{Schedule: s.Name, Period: period}
	if next, ok := s.When.Next(now); ok {
		e.Example = s.When.PeriodOf(next)
	}
	return machine.Opening{}, e
}
