package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/calendar/holiday"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/pkg/job"
)

// SourceLedger is the source of a selection that runs in the ledger's own database.
const SourceLedger = "ledger"

// scheduleFile is one entry of schedules as it is written.
type scheduleFile struct {
	calendar.Spec `yaml:",inline"`

	Kind     string                 `yaml:"kind"`
	Key      string                 `yaml:"key"`
	Select   string                 `yaml:"select"`
	Source   string                 `yaml:"source"`
	Deadline *calendar.DeadlineSpec `yaml:"deadline"`
}

// holidaysFile is one entry of holidays as it is written.
type holidaysFile struct {
	Countries []string           `yaml:"countries"`
	File      string             `yaml:"file"`
	Weekend   []calendar.Weekday `yaml:"weekend"` // nil is Saturday and Sunday
}

// Schedule is a schedule of runs: when, of which kind, and for whom.
type Schedule struct {
	// Name is its name in the configuration.
	Name string
	// Kind is the kind of its jobs.
	Kind string
	// When says when it fires.
	When *calendar.Schedule
	// Key makes the operation keys of its jobs.
	Key calendar.KeyTemplate
	// Select is the query that yields its recipients, and Source where it is asked.
	Select, Source string
	// LateBound: the destinations of its jobs are asked for right before an attempt, so that
	// the selection need not have them.
	LateBound bool
	// Deadline makes the deadlines of its jobs; nil where they have none.
	Deadline *calendar.DeadlineRule
	// HolidaysUntil is the last day that a file of holidays lists for it; HasHolidays is
	// false where there is no such file.
	HolidaysUntil calendar.Date
	HasHolidays   bool
}

// Database is the source of its selection as the ledger knows it: empty for its own
// database.
func (s Schedule) Database() string {
	if s.Source == SourceLedger {
		return ""
	}
	return s.Source
}

// Columns are the columns that the selection must have: those of the key, the
// destination, unless that is bound late, and the date of the deadline. It may have
// subject, zone and payload.
func (s Schedule) Columns() []string {
	columns := s.Key.Columns()
	if !s.LateBound {
		columns = append(columns, schedule.ColumnDestination)
	}
	if s.Deadline != nil && s.Deadline.Column() != "" {
		columns = append(columns, s.Deadline.Column())
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}

// Schedules returns every schedule, by name.
func (c *Config) Schedules() []Schedule { return c.schedules }

// Schedule returns a schedule; false where there is none of this name.
func (c *Config) Schedule(name string) (Schedule, bool) {
	i := slices.IndexFunc(c.schedules, func(s Schedule) bool { return s.Name == name })
	if i < 0 {
		return Schedule{}, false
	}
	return c.schedules[i], true
}

// days are the business days of an entry of holidays.
type days struct {
	*calendar.Business

	until  calendar.Date
	listed bool
}

// holidays resolves the entries of holidays. One that is wrong counts as there, so that
// what refers to it is not complained about.
func (c *checker) holidays() map[string]days {
	all := map[string]days{}
	for _, name := range slices.Sorted(maps.Keys(c.file.Holidays)) {
		c.require(job.ValidName(name), "holidays."+name, nameRule)
		if written := c.file.Holidays[name]; written != nil {
			all[name] = c.businessDays("holidays."+name, written)
		}
	}
	return all
}

func (c *checker) businessDays(at string, f *holidaysFile) days {
	var off []calendar.DayOff
	for i, code := range f.Countries {
		known, ok := holiday.Of(code)
		if !ok {
			c.refuse(fmt.Sprintf("%s.countries[%d]", at, i), "there is no such country or region; known are %s", strings.Join(holiday.Codes(), ", "))
			continue
		}
		off = append(off, func(d calendar.Date) string { return known.On(d.Date()) })
	}
	var listed map[calendar.Date]string
	if f.File != "" {
		listed = c.holidaysFrom(at+".file", f.File)
		off = append(off, func(d calendar.Date) string { return listed[d] })
	}
	weekend := f.Weekend
	if weekend == nil {
		weekend = []calendar.Weekday{calendar.Weekday(time.Saturday), calendar.Weekday(time.Sunday)}
	}
	business, err := calendar.NewBusiness(weekend, off...)
	if err != nil {
		c.refuse(at+".weekend", "%v", err)
		business = &calendar.Business{}
	}
	d := days{Business: business}
	if len(listed) > 0 {
		d.until, d.listed = slices.Max(slices.Collect(maps.Keys(listed))), true
	}
	return d
}

// holidaysFrom reads a file of holidays; its name is relative to the configuration.
func (c *checker) holidaysFrom(field, name string) map[calendar.Date]string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(c.path), path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		c.refuse(field, "it cannot be read: %v", err)
		return nil
	}
	listed, err := calendar.ParseHolidays(data)
	for _, one := range leaves(err) {
		if line, ok := errors.AsType[*calendar.LineError](one); ok {
			c.problems = append(c.problems, &strictyaml.Problem{File: path, Line: line.Line, Field: field, Rule: line.Rule})
		}
	}
	return listed
}

// schedules resolves the entries of schedules.
func (c *checker) schedules(kinds []Kind) []Schedule {
	holidays := c.holidays()
	var all []Schedule
	for _, name := range slices.Sorted(maps.Keys(c.file.Schedules)) {
		if written := c.file.Schedules[name]; written != nil {
			all = append(all, c.schedule(name, written, kinds, holidays))
		}
	}
	return all
}

func (c *checker) schedule(name string, f *scheduleFile, kinds []Kind, holidays map[string]days) Schedule {
	at := "schedules." + name
	s := Schedule{Name: name, Kind: f.Kind, Select: strings.TrimSpace(f.Select), Source: f.Source}
	c.require(job.ValidName(name), at, nameRule)
	switch i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == f.Kind }); {
	case f.Kind == "":
		c.refuse(at+".kind", "it must be given: the kind of the schedule's jobs")
	case i < 0:
		c.refuse(at+".kind", "there is no such kind; describe it as kinds.%s", f.Kind)
	default:
		s.LateBound = kinds[i].Resolve != nil
	}
	s.Key = c.key(at+".key", f.Key)
	if err := ledger.CheckSelection(s.Select); err != nil {
		c.refuse(at+".select", "%v", err)
	}
	if s.Source == "" {
		s.Source = SourceLedger
	}
	c.require(job.ValidName(s.Source), at+".source", nameRule)
	c.declared(at+".source", s.Source)
	own := holidays[f.Holidays]
	s.HolidaysUntil, s.HasHolidays = own.until, own.listed
	var err error
	s.When, err = calendar.Compile(f.Spec, own.Business)
	c.fields(at, err)
	if s.When != nil {
		for _, warning := range s.When.Warnings() {
			c.warn("schedule %s: %s", name, warning)
		}
	}
	if f.Deadline != nil {
		s.Deadline, err = calendar.CompileDeadline(*f.Deadline, s.When, holidays[f.Deadline.Holidays].Business)
		c.fields(at+".deadline", err)
		c.deadline(at+".deadline", s)
	}
	return s
}

// key checks the template of operation keys.
func (c *checker) key(field, text string) calendar.KeyTemplate {
	if text == "" {
		c.refuse(field, "it must be given: a text with {period} and columns of the selection, such as digest:{period}:{customer}")
		return calendar.KeyTemplate{}
	}
	template, err := calendar.ParseKeyTemplate(text)
	c.fields(strings.TrimSuffix(field, ".key"), err)
	if err := job.CheckText("key", text, job.MaxKey, true); err != nil {
		for _, r := range job.Refusals(err) {
			c.refuse(field, "%s", r.Rule.Text())
		}
	}
	return template
}

// fields tells each field that the calendar refuses with its line.
func (c *checker) fields(at string, err error) {
	for _, one := range leaves(err) {
		if field, ok := errors.AsType[*calendar.FieldError](one); ok {
			c.refuse(at+"."+field.Field, "%s", field.Rule)
		}
	}
}

// Occurrences by which a rule of deadlines is tried, and from when on.
const triedOccurrences = 500

var triedFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// deadline tries the rule: a deadline that is not behind the due time makes a run of
// nothing but refused rows.
func (c *checker) deadline(field string, s Schedule) {
	if s.When == nil || s.Deadline == nil || s.Deadline.Column() != "" {
		return
	}
	tried := 0
	for o := range s.When.All(triedFrom) {
		if tried++; tried > triedOccurrences {
			return
		}
		due := s.When.Due(o, nil)
		d, err := s.Deadline.Resolve(calendar.DeadlineInput{Day: o.Wall.Date(), Due: due})
		if err == nil && (o.Skip != "" || d.At.After(due)) {
			continue
		}
		if err == nil {
			err = fmt.Errorf("jobs that are due at %s would have the deadline %s, which is not behind it", due.Format(time.RFC3339), d.At.Format(time.RFC3339))
		}
		c.refuse(field, "%v", err)
		return
	}
}
