package calendar

import (
	"errors"
	"fmt"
	"time"
)

// DeadlineSpec is a rule for deadlines as a person writes it: either a time after the
// job is due (After), or a time of day (At) on a day that is counted from another.
type DeadlineSpec struct {
	// After is elapsed time from when the job is due.
	After *time.Duration `yaml:"after"`
	// At is a time of day, on the day that the other fields name.
	At *Clock `yaml:"at"`
	// On is the day that is counted from: OnOccurrence (the default), or the name of a
	// column of the selection that holds a date.
	On string `yaml:"on"`
	// Days and BusinessDays are added to it, or subtracted; one of them.
	Days         *int `yaml:"days"`
	BusinessDays *int `yaml:"business_days"`
	// Holidays names the business days; NonBusinessDay is DayKeep (the default),
	// DayPrevious or DayNext.
	Holidays       string         `yaml:"holidays"`
	NonBusinessDay NonBusinessDay `yaml:"non_business_day"`
	// Zone is an IANA zone, or ZoneRecipient. Default: the zone in which the job's due
	// time is read.
	Zone string `yaml:"zone"`
}

// What the fields of a deadline's rule mean by name.
const (
	// OnOccurrence counts from the day on which the occurrence takes place.
	OnOccurrence = "occurrence"
	// ZoneRecipient is the zone of each recipient, or the schedule's where it has none.
	ZoneRecipient = "recipient"

	maxDeadline     = 400 * dayDuration
	maxDeadlineDays = 400
)

// DeadlineRule makes deadlines; see CompileDeadline.
type DeadlineRule struct {
	spec      DeadlineSpec
	zone      *Zone // of all; nil: the recipient's
	business  *Business
	recipient bool
}

// Deadline is a deadline with how it came about. It is resolved once, when the job is
// made, by the zone data of that moment (Release): a later one changes nothing about it.
type Deadline struct {
	// At is the instant, in UTC.
	At time.Time
	// Local is the wall time that was meant, and Zone where: Zone.Given is the name that
	// was used, Zone.Name what it is called today.
	Local Local
	Zone  *Zone
	// Fit says how Local lies in its zone. In a gap At is the first valid instant, in an
	// overlap the first.
	Fit Fit
	// Named is the day before it was moved; Closed is the holiday or day of the weekend
	// because of which it was, "" where it was not.
	Named  Date
	Closed string
}

// CompileDeadline checks the rule of a schedule's deadlines. business are the business
// days that Holidays names; nil where it names none. All that is wrong is told at once,
// each as a *FieldError by the names that the fields have in the file.
func CompileDeadline(spec DeadlineSpec, s *Schedule, business *Business) (*DeadlineRule, error) {
	var r refusals
	rule := &DeadlineRule{spec: spec, business: business}
	byTime := spec.On != "" || spec.Days != nil || spec.BusinessDays != nil || spec.Holidays != "" || spec.NonBusinessDay != ""
	switch {
	case (spec.After == nil) == (spec.At == nil):
		r.add("at", "", "exactly one of after and at must be given")
	case spec.After != nil && byTime:
		r.add("after", "", "it counts from when the job is due, without days, holidays or another day")
	case spec.After != nil && (*spec.After < time.Second || *spec.After > maxDeadline || *spec.After%time.Second != 0):
		r.add("after", "", "it must be between 1s and %dd, in whole seconds", int(maxDeadline/dayDuration))
	}
	if spec.Days != nil && spec.BusinessDays != nil {
		r.add("business_days", "", "days are given too; only one of them can be counted")
	}
	for _, f := range []struct {
		name string
		n    *int
	}{{"days", spec.Days}, {"business_days", spec.BusinessDays}} {
		if f.n != nil && (*f.n > maxDeadlineDays || *f.n < -maxDeadlineDays) {
			r.add(f.name, "", "it must be between -%d and %d", maxDeadlineDays, maxDeadlineDays)
		}
	}
	if spec.On != "" && spec.On != OnOccurrence && !validColumn(spec.On) {
		r.add("on", spec.On, "it must be occurrence, or the name of a column of the selection: "+columnRule)
	}
	rule.days(&r)
	rule.zones(&r, s)
	if err := r.join(); err != nil {
		return nil, err
	}
	return rule, nil
}

func (d *DeadlineRule) days(r *refusals) {
	counts := d.spec.BusinessDays != nil
	moves := d.spec.NonBusinessDay == DayPrevious || d.spec.NonBusinessDay == DayNext
	switch {
	case d.spec.Holidays != "" && d.business == nil:
		r.add("holidays", d.spec.Holidays, "there is no such entry; declare it as holidays.%s", d.spec.Holidays)
	case d.spec.Holidays == "" && (counts || moves):
		r.add("holidays", "", "it must be given: the entry of holidays that says which days are business days")
	case d.spec.Holidays != "" && !counts && !moves:
		r.add("holidays", d.spec.Holidays, "business_days or non_business_day must say what holidays change")
	}
	if !moves && d.spec.NonBusinessDay != "" && d.spec.NonBusinessDay != DayKeep {
		r.add("non_business_day", string(d.spec.NonBusinessDay), "it must be one of keep, previous, next")
	}
}

func (d *DeadlineRule) zones(r *refusals, s *Schedule) {
	switch zone, err := LoadZone(d.spec.Zone); {
	case d.spec.Zone == "" && s == nil: // the schedule is refused anyway
	case d.spec.Zone == "":
		d.zone, d.recipient = s.zone, s.clock == ClockRecipient
	case d.spec.Zone == ZoneRecipient:
		d.recipient = true
		if s != nil {
			d.zone = s.zone
		}
	case err != nil:
		r.add("zone", d.spec.Zone, "%v, or recipient", ErrUnknownZone)
	default:
		d.zone = zone
	}
}

// Column is the column of the selection that the rule counts from; "" is none.
func (d *DeadlineRule) Column() string {
	if d.spec.On == OnOccurrence {
		return ""
	}
	return d.spec.On
}

// DeadlineInput is what a job's deadline is made from.
type DeadlineInput struct {
	// Day is the day on which the occurrence takes place.
	Day Date
	// Due is when the job is due.
	Due time.Time
	// On is the value of the column that the rule counts from; nil where it names none.
	On *Date
	// Recipient is the recipient's zone; nil where it has none.
	Recipient *Zone
}

// ErrNoDate refuses a recipient whose row has no date to count from.
var ErrNoDate = errors.New("the date that the deadline counts from is missing")

// Resolve makes one job's deadline. An error means that it has none, since its date is
// missing (ErrNoDate) or nothing is open for over a year.
func (d *DeadlineRule) Resolve(in DeadlineInput) (Deadline, error) {
	out := Deadline{Zone: d.zone}
	if d.recipient && in.Recipient != nil {
		out.Zone = in.Recipient
	}
	if d.spec.After != nil {
		out.At = in.Due.Add(*d.spec.After).UTC()
		out.Local = LocalAt(out.At, out.Zone)
		out.Named = out.Local.Date()
		if r := out.Local.read(out.Zone); r.fit == Repeated {
			out.Fit = Repeated
		}
		return out, nil
	}
	day := in.Day
	if d.Column() != "" {
		if in.On == nil {
			return Deadline{}, fmt.Errorf("column %s: %w", d.Column(), ErrNoDate)
		}
		day = *in.On
	}
	day, err := d.count(day)
	if err != nil {
		return Deadline{}, err
	}
	out.Named = day
	if by := map[NonBusinessDay]int{DayPrevious: -1, DayNext: 1}[d.spec.NonBusinessDay]; by != 0 {
		out.Closed = d.business.Closed(day)
		moved, ok := d.business.Roll(day, by)
		if !ok {
			return Deadline{}, errClosed(day)
		}
		day = moved
	}
	out.Local = day.At(*d.spec.At)
	out.At, out.Fit = out.Local.In(out.Zone)
	return out, nil
}

// count adds days, or business days.
func (d *DeadlineRule) count(day Date) (Date, error) {
	switch {
	case d.spec.Days != nil:
		return day + Date(*d.spec.Days), nil
	case d.spec.BusinessDays != nil:
		counted, ok := d.business.Add(day, *d.spec.BusinessDays)
		if !ok {
			return day, errClosed(day)
		}
		return counted, nil
	default:
		return day, nil
	}
}

func errClosed(day Date) error {
	return fmt.Errorf("there is no business day within %d days of %s", maxClosed, day)
}
