package calendar

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Gap says what becomes of a wall time that the clocks leave out.
type Gap string

// The rules of a gap. With clocks that go from 02:00 to 03:00, 02:30 is
const (
	// GapFirst: the first valid instant, 03:00.
	GapFirst Gap = "first-valid"
	// GapSkip: left out, and recorded as skipped.
	GapSkip Gap = "skip"
	// GapShift: as much later as the clocks jumped, 03:30.
	GapShift Gap = "shift"
)

// Overlap says which of two instants a wall time means that the clocks show twice.
type Overlap string

// The rules of an overlap.
const (
	OverlapFirst  Overlap = "first"
	OverlapSecond Overlap = "second"
	OverlapBoth   Overlap = "both"
)

// NonBusinessDay says what becomes of a day that is no business day.
type NonBusinessDay string

// The rules of days that are no business days.
const (
	// DayKeep: it is kept as it is.
	DayKeep NonBusinessDay = "keep"
	// DaySkip: it is left out, and recorded as skipped.
	DaySkip NonBusinessDay = "skip"
	// DayPrevious: the last business day before it is taken.
	DayPrevious NonBusinessDay = "previous"
	// DayNext: the first business day behind it is taken.
	DayNext NonBusinessDay = "next"
)

// Reference says on whose clock a wall time is read.
type Reference string

// The clocks.
const (
	// ClockSchedule: the clock of the schedule's zone, one instant for all.
	ClockSchedule Reference = "schedule"
	// ClockRecipient: the clock of each recipient's own zone.
	ClockRecipient Reference = "recipient"
)

// CatchUp says what becomes of occurrences that nobody fired within their window.
type CatchUp string

// The catch-up policies.
const (
	// CatchUpNone: they are missed.
	CatchUpNone CatchUp = "none"
	// CatchUpLatest: the newest that is due fires, late, and the others are missed.
	CatchUpLatest CatchUp = "latest"
	// CatchUpAll: all fire, late, up to a number; the oldest beyond it are missed.
	CatchUpAll CatchUp = "all"
)

// WhileRunning says what becomes of an occurrence while the run before it is not over.
type WhileRunning string

// The policies of a run that is still running.
const (
	// RunAllow: it fires all the same.
	RunAllow WhileRunning = "allow"
	// RunSkip: it is skipped.
	RunSkip WhileRunning = "skip"
	// RunWait: it fires when the other is over; beyond its window catch-up decides.
	RunWait WhileRunning = "wait"
)

// Spec is a schedule as a person writes it. Exactly one of Cron, Every and BusinessDays
// says when; docs/configuration.md has every field with its default.
type Spec struct {
	// Cron is an expression for ParseCron.
	Cron string `yaml:"cron"`
	// Every is a fixed interval of elapsed time, at least 1 s, in whole seconds.
	Every *time.Duration `yaml:"every"`
	// Anchor is a wall time at which an interval begins, once. Default: the midnight
	// that began the year 2000.
	Anchor string `yaml:"anchor"`
	// BusinessDays are numbered business days of each month, at the times At.
	BusinessDays []BusinessDay `yaml:"business_days"`
	At           []Clock       `yaml:"at"`
	// Zone is the IANA zone of all wall times. It must be given.
	Zone string `yaml:"zone"`
	// Clock: default ClockSchedule. With ClockRecipient each job is due when the clocks
	// of its recipient show the time; Zone is then that of recipients without one.
	Clock Reference `yaml:"clock"`
	// EarliestZone is the zone whose clocks are before those of all recipients. Default:
	// UTC+14, the earliest of the world.
	EarliestZone string `yaml:"earliest_zone"`
	// Gap and Overlap: default GapFirst and OverlapFirst; for expressions with '*' in
	// minute or hour GapSkip and OverlapBoth, which is elapsed time.
	Gap     Gap     `yaml:"gap"`
	Overlap Overlap `yaml:"overlap"`
	// Holidays names the business days; NonBusinessDay: default DayKeep.
	Holidays       string         `yaml:"holidays"`
	NonBusinessDay NonBusinessDay `yaml:"non_business_day"`
	// Period is what an occurrence is called by. It must be given.
	Period Period `yaml:"period"`
	// Window is how late an occurrence may fire without being late. Default 1 min.
	Window *time.Duration `yaml:"window"`
	// CatchUp: default CatchUpLatest; CatchUpMax bounds CatchUpAll, default MaxCatchUp.
	CatchUp    CatchUp `yaml:"catch_up"`
	CatchUpMax *int    `yaml:"catch_up_max"`
	// WhileRunning: default RunAllow.
	WhileRunning WhileRunning `yaml:"while_running"`
}

const (
	// MaxCatchUp is the most occurrences that are caught up at once.
	MaxCatchUp = 100
	// MaxWindow is the longest window.
	MaxWindow = 7 * dayDuration

	defaultWindow = time.Minute
	maxInterval   = 400 * dayDuration
	maxTimes      = 24 * 60
)

// earliestOfTheWorld is the zone whose clocks are before all others, at UTC+14.
const earliestOfTheWorld = "Pacific/Kiritimati"

// Compile checks a spec and makes its schedule. business are the business days that
// Holidays names; nil where it names none. All that is wrong is told at once, each as a
// *FieldError by the names that the fields have in the file.
func Compile(spec Spec, business *Business) (*Schedule, error) {
	c := compiler{spec: spec, Schedule: &Schedule{spec: spec, business: business}}
	c.zones()
	c.rule()
	c.days()
	c.policies()
	if len(c.refusals) == 0 {
		c.unique()
	}
	if err := c.join(); err != nil {
		return nil, err
	}
	return c.Schedule, nil
}

type compiler struct {
	refusals
	*Schedule

	spec Spec
}

// choose refuses a value that is none of a closed set, and sets the default, the first
// of the set, where none is given.
func choose[T ~string](c *compiler, field string, value T, all ...T) T {
	if value == "" {
		return all[0]
	}
	if !slices.Contains(all, value) {
		words := make([]string, len(all))
		for i, v := range all {
			words[i] = string(v)
		}
		c.add(field, string(value), "it must be one of %s", strings.Join(words, ", "))
	}
	return value
}

func (c *compiler) zones() {
	c.zone = c.loadZone("zone", c.spec.Zone)
	c.clock = choose(c, "clock", c.spec.Clock, ClockSchedule, ClockRecipient)
	c.opens = c.zone
	switch {
	case c.clock == ClockRecipient && c.spec.EarliestZone != "":
		c.opens = c.loadZone("earliest_zone", c.spec.EarliestZone)
	case c.clock == ClockRecipient:
		c.opens = c.loadZone("earliest_zone", earliestOfTheWorld)
	case c.spec.EarliestZone != "":
		c.add("earliest_zone", c.spec.EarliestZone, "it is for clock: recipient; all others open by their own zone")
	}
}

func (c *compiler) loadZone(field, name string) *Zone {
	z, err := LoadZone(name)
	switch {
	case name == "":
		c.add(field, "", "it must be given: an IANA time zone such as Europe/Paris")
	case err != nil:
		c.add(field, name, "%v", ErrUnknownZone)
	}
	return z
}

// rule reads the one way of saying when.
func (c *compiler) rule() {
	given := 0
	for _, is := range []bool{c.spec.Cron != "", c.spec.Every != nil, len(c.spec.BusinessDays) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		c.add("cron", "", "exactly one of cron, every and business_days must say when")
	}
	if c.spec.Cron != "" {
		c.cronRule()
	}
	if c.spec.Every != nil {
		c.interval(*c.spec.Every)
	} else if c.spec.Anchor != "" {
		c.add("anchor", c.spec.Anchor, "it is for every: the others say when by themselves")
	}
	if len(c.spec.BusinessDays) > 0 {
		c.businessRule()
	} else if len(c.spec.At) > 0 {
		c.add("at", "", "it is for business_days: the others say when by themselves")
	}
}

func (c *compiler) cronRule() {
	cron, err := ParseCron(c.spec.Cron)
	for _, one := range leaves(err) {
		if one.Field == "cron" {
			c.add("cron", c.spec.Cron, "%s", one.Rule)
			continue
		}
		c.add("cron", c.spec.Cron, "%v", one)
	}
	if err != nil {
		return
	}
	c.cron, c.rules, c.times, c.elapsed = &cron, cron, cron.times(), cron.Wildcard()
}

// leaves are the field errors that an error joins.
func leaves(err error) []*FieldError {
	switch e := err.(type) { //nolint:errorlint // it is our own, as it was made
	case nil:
		return nil
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() []error }:
		var all []*FieldError
		for _, sub := range e.Unwrap() {
			all = append(all, leaves(sub)...)
		}
		return all
	default:
		return []*FieldError{{Field: "cron", Rule: err.Error()}}
	}
}

func (c *compiler) interval(every time.Duration) {
	if every < time.Second || every%time.Second != 0 || every > maxInterval {
		c.add("every", "", "it must be between 1s and %dd, in whole seconds", int(maxInterval/dayDuration))
		return
	}
	c.every = every
	anchor := NewDate(2000, time.January, 1).At(0)
	if c.spec.Anchor != "" {
		local, err := ParseLocal(c.spec.Anchor)
		if err != nil {
			c.add("anchor", c.spec.Anchor, "%v", ErrLocal)
			return
		}
		if anchor = local; local.wall.Nanosecond() != 0 {
			c.add("anchor", c.spec.Anchor, "it must be in whole seconds")
		}
	}
	if c.zone != nil {
		c.anchor, _ = anchor.In(c.zone)
	}
}

func (c *compiler) businessRule() {
	if c.spec.Holidays == "" {
		c.add("holidays", "", "it must be given with business_days: the name of an entry of holidays")
	}
	if len(c.spec.At) == 0 {
		c.add("at", "", "it must be given with business_days: the times of day, such as [\"09:00\"]")
	}
	if c.spec.NonBusinessDay != "" {
		c.add("non_business_day", string(c.spec.NonBusinessDay), "business_days are business days")
	}
	c.times = slices.Compact(slices.Sorted(slices.Values(c.spec.At)))
	if len(c.times) != len(c.spec.At) {
		c.add("at", "", "a time is given twice")
	}
	if c.business != nil {
		c.rules = businessDays{c.spec.BusinessDays, c.business}
	}
}

// days checks what touches the days.
func (c *compiler) days() {
	c.closed = choose(c, "non_business_day", c.spec.NonBusinessDay, DayKeep, DaySkip, DayPrevious, DayNext)
	switch {
	case c.spec.Holidays == "" && c.closed != DayKeep:
		c.add("non_business_day", string(c.closed), "holidays must name which days are business days")
	case c.spec.Holidays == "":
	case c.business == nil:
		c.add("holidays", c.spec.Holidays, "there is no such entry; declare it as holidays.%s", c.spec.Holidays)
	case c.closed == DayKeep && len(c.spec.BusinessDays) == 0:
		c.add("holidays", c.spec.Holidays, "non_business_day must say what holidays change: skip, previous or next")
	}
	if c.every > 0 && c.spec.NonBusinessDay != "" {
		c.add("non_business_day", string(c.closed), "an interval goes by elapsed time and knows no days; use cron")
	}
	if c.elapsed && (c.closed == DayPrevious || c.closed == DayNext) {
		c.add("non_business_day", string(c.closed), "with '*' in minute or hour all of them would move onto those of another day; only keep and skip make sense")
	}
	if c.clock == ClockRecipient && (c.every > 0 || c.elapsed) {
		c.add("clock", string(c.clock), "a recipient's clock needs fixed times, not an interval and no '*' in minute or hour")
	}
}

// policies checks what is done with occurrences.
func (c *compiler) policies() {
	gaps, overlaps := []Gap{GapFirst, GapSkip, GapShift}, []Overlap{OverlapFirst, OverlapSecond, OverlapBoth}
	if c.elapsed {
		gaps, overlaps = []Gap{GapSkip, GapFirst, GapShift}, []Overlap{OverlapBoth, OverlapFirst, OverlapSecond}
	}
	if c.every > 0 {
		for _, f := range []struct{ name, value string }{{"gap", string(c.spec.Gap)}, {"overlap", string(c.spec.Overlap)}} {
			if f.value != "" {
				c.add(f.name, f.value, "an interval goes by elapsed time, which has no gaps and no overlaps")
			}
		}
	}
	c.gap, c.overlap = choose(c, "gap", c.spec.Gap, gaps...), choose(c, "overlap", c.spec.Overlap, overlaps...)
	if c.clock == ClockRecipient && c.gap == GapSkip {
		c.add("gap", string(c.gap), "a recipient whose clocks leave a time out would get nothing; use first-valid or shift")
	}
	if c.clock == ClockRecipient && c.overlap == OverlapBoth {
		c.add("overlap", string(c.overlap), "each recipient gets one job; use first or second")
	}
	if c.spec.Period == "" {
		c.add("period", "", "it must be given: %s", periodRule)
	}
	c.period = choose(c, "period", c.spec.Period, Periods()...)
	c.window = defaultWindow
	if c.spec.Window != nil {
		if c.window = *c.spec.Window; c.window < time.Second || c.window > MaxWindow {
			c.add("window", "", "it must be between 1s and %dd", int(MaxWindow/dayDuration))
		}
	}
	c.catchUp = choose(c, "catch_up", c.spec.CatchUp, CatchUpLatest, CatchUpNone, CatchUpAll)
	c.catchUpMax = MaxCatchUp
	if c.spec.CatchUpMax != nil {
		c.catchUpMax = *c.spec.CatchUpMax
		if c.catchUp != CatchUpAll {
			c.add("catch_up_max", "", "it is for catch_up: all")
		}
		if c.catchUpMax < 1 || c.catchUpMax > MaxCatchUp {
			c.add("catch_up_max", "", "it must be between 1 and %d", MaxCatchUp)
		}
	}
	c.running = choose(c, "while_running", c.spec.WhileRunning, RunAllow, RunSkip, RunWait)
	if c.running == RunSkip && c.catchUp == CatchUpAll {
		c.add("while_running", string(c.running), "with catch_up: all, each would be skipped because the one before it runs; use wait")
	}
}

// unique refuses a period that two occurrences would share.
func (c *compiler) unique() {
	if c.every == 0 {
		if _, fires := c.firstDay(); !fires {
			c.add("holidays", c.spec.Holidays, "it never fires: none of its days is a business day")
			return
		}
	}
	if a, b, found := c.collision(); found {
		c.add("period", string(c.period), "two occurrences would share the period %s: %s and %s", c.PeriodOf(a), describe(a), describe(b))
	}
}

func describe(o Occurrence) string {
	if o.Fit == Repeated {
		return fmt.Sprintf("%s (%s)", o.Wall, o.At.UTC().Format(time.RFC3339))
	}
	return o.Wall.String()
}
