package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/calendar"
)

type schedulesCommand struct {
	List    schedulesListCommand    `cmd:"" help:"List the schedules of the configuration, and when each fires next."`
	Preview schedulesPreviewCommand `cmd:"" help:"Show when a schedule fires, and what clocks and holidays do to it. Nothing is run."`
}

type schedulesListCommand struct {
	app.ConfigSettings

	JSON bool `name:"json" help:"Print one JSON array."`
}

// listedSchedule is what the list prints as JSON.
type listedSchedule struct {
	app.ScheduleSummary

	Next     *time.Time `json:"next"` // nil: never again
	Warnings []string   `json:"warnings"`
}

// Run lists the schedules.
func (c *schedulesListCommand) Run(p *app.Process) error {
	config, err := c.Load()
	if err != nil {
		return err
	}
	listed := []listedSchedule{}
	for _, s := range config.Schedules() {
		one := listedSchedule{ScheduleSummary: s.Summary(), Warnings: append([]string{}, s.When.Warnings()...)}
		if next, ok := s.When.Next(time.Now()); ok {
			one.Next = &next.At
		}
		listed = append(listed, one)
	}
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(listed)
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCHEDULE\tKIND\tWHEN\tZONE\tPERIOD\tCATCH UP\tNEXT (UTC)")
	for _, s := range listed {
		next := "never"
		if s.Next != nil {
			next = s.Next.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Kind, s.When, s.Zone, s.Period, s.CatchUp, next)
	}
	return t.Flush()
}

// maxPreview is the most occurrences that are shown at once.
const maxPreview = 10_000

type schedulesPreviewCommand struct {
	Name string `arg:"" help:"The schedule's name in the configuration."`
	From string `placeholder:"T" help:"Show what comes after this: an instant (2026-03-08T12:00:00Z), or a date or wall time in the schedule's zone (2026-03-08, 2026-03-08T12:00). Default: now."`
	Next int    `default:"20" help:"How many occurrences that fire are shown (${default})."`
	Zone string `placeholder:"ZONE" help:"Show them in this IANA zone too."`
	JSON bool   `name:"json" help:"Print one JSON object."`
	app.ConfigSettings
}

// preview is what a preview prints.
type preview struct {
	Schedule  app.ScheduleSummary `json:"schedule"`
	ZoneData  string              `json:"zone_data"` // release of the IANA database
	From      time.Time           `json:"from"`
	Upcoming  []upcoming          `json:"occurrences"`
	Jumps     []jump              `json:"jumps"`
	Exhausted bool                `json:"exhausted"` // there are no more
	Warnings  []string            `json:"warnings"`
}

// upcoming is one occurrence of a preview.
type upcoming struct {
	// At is the instant; Local what the clocks of the schedule show then, Other those of
	// the zone that was asked for.
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Other string    `json:"other,omitempty"`
	// Wall is the wall time that is meant.
	Wall   string `json:"wall"`
	Period string `json:"period"`
	Fit    string `json:"fit"`
	Second bool   `json:"second,omitempty"`
	// MovedFrom is the day that the rule names, where it is another; Closed why.
	MovedFrom string `json:"moved_from,omitempty"`
	Closed    string `json:"closed,omitempty"`
	Skip      string `json:"skip,omitempty"`
	Note      string `json:"note,omitempty"`
	// LastDue is when the last recipient may be due, where each has a clock of its own.
	LastDue *time.Time `json:"last_due,omitempty"`
}

// jump is a change of the schedule's clocks within a preview.
type jump struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Note string    `json:"note"`
}

// Run prints the preview.
func (c *schedulesPreviewCommand) Run(p *app.Process) error {
	config, err := c.Load()
	if err != nil {
		return err
	}
	s, ok := config.Schedule(c.Name)
	if !ok {
		return app.Exit(app.ExitRefused, fmt.Errorf("there is no schedule %q in %s; duly schedules list shows those that there are", c.Name, c.Config))
	}
	from, fromErr := c.from(s.When.Opens())
	var other *calendar.Zone
	var zoneErr error
	if c.Zone != "" {
		other, zoneErr = calendar.LoadZone(c.Zone)
	}
	var nextErr error
	if c.Next < 1 || c.Next > maxPreview {
		nextErr = fmt.Errorf("--next %d: it must be between 1 and %d", c.Next, maxPreview)
	}
	if err := errors.Join(fromErr, zoneErr, nextErr); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	v := previewOf(s, from, c.Next, other)
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(v)
	}
	return v.print(p, other)
}

// from reads --from.
func (c *schedulesPreviewCommand) from(z *calendar.Zone) (time.Time, error) {
	if c.From == "" {
		return time.Now().UTC(), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, c.From); err == nil {
		return at.UTC(), nil
	}
	if day, err := calendar.ParseDate(c.From); err == nil {
		at, _ := day.At(0).In(z)
		return at.Add(-time.Second), nil // midnight itself is shown
	}
	local, err := calendar.ParseLocal(c.From)
	if err != nil {
		return time.Time{}, fmt.Errorf("--from %q: it must be an instant with its offset, a date, or a wall time", c.From)
	}
	at, _ := local.In(z)
	return at, nil
}

func previewOf(s app.Schedule, from time.Time, next int, other *calendar.Zone) preview {
	v := preview{
		Schedule: s.Summary(), ZoneData: calendar.Release(), From: from, Upcoming: []upcoming{}, Jumps: []jump{},
		Warnings: append([]string{}, s.When.Warnings()...), Exhausted: true,
	}
	last := from
	for o := range s.When.All(from) {
		v.Upcoming = append(v.Upcoming, upcomingOf(s.When, o, other))
		last = o.At
		if o.Skip == "" {
			next--
		}
		if next == 0 || len(v.Upcoming) == maxPreview {
			v.Exhausted = false
			break
		}
	}
	for j := range calendar.Jumps(s.When.Opens(), from, last) {
		v.Jumps = append(v.Jumps, jump{j.At, j.Forward().String(), j.Note(s.When.Opens())})
	}
	if s.HasHolidays && calendar.LocalAt(last, s.When.Opens()).Date() > s.HolidaysUntil {
		v.Warnings = append(v.Warnings, fmt.Sprintf("the file of holidays ends with %s; behind it, its holidays are taken for business days", s.HolidaysUntil))
	}
	return v
}

// shown is how an instant looks on the clocks of a zone.
func shown(at time.Time, z *calendar.Zone) string {
	return at.In(z.Location()).Format("Mon 2006-01-02 15:04:05 -0700")
}

func upcomingOf(when *calendar.Schedule, o calendar.Occurrence, other *calendar.Zone) upcoming {
	u := upcoming{
		At: o.At, Local: shown(o.At, when.Opens()), Wall: o.Wall.String(), Period: when.PeriodOf(o), Fit: o.Fit.String(),
		Second: o.Second, Closed: o.Closed, Skip: string(o.Skip), Note: when.Note(o),
	}
	if other != nil {
		u.Other = shown(o.At, other)
	}
	if o.Moved() {
		u.MovedFrom = o.Named.String()
	}
	if when.Clock() == calendar.ClockRecipient {
		last := when.LastDue(o)
		u.LastDue = &last
	}
	return u
}

func (v preview) print(p *app.Process, other *calendar.Zone) error {
	fmt.Fprintf(p.Stdout, "%s: %s, %s, period %s (zone data %s)\n", v.Schedule.Name, v.Schedule.When, v.zones(), v.Schedule.Period, v.ZoneData)
	for _, warning := range v.Warnings {
		fmt.Fprintf(p.Stdout, "warning: %s\n", warning)
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	header := []string{v.opens(), "UTC"}
	if other != nil {
		header = append(header, other.Name())
	}
	fmt.Fprintln(t, strings.Join(append(header, "PERIOD", "NOTE"), "\t"))
	jumps := v.Jumps
	for _, u := range v.Upcoming {
		notes := []string{u.Note}
		for len(jumps) > 0 && !jumps[0].At.After(u.At) {
			notes = append(notes, jumps[0].Note)
			jumps = jumps[1:]
		}
		row := []string{u.Local, u.At.Format(time.RFC3339)}
		if other != nil {
			row = append(row, u.Other)
		}
		fmt.Fprintln(t, strings.Join(append(row, u.Period, strings.Join(nonEmpty(notes...), "; ")), "\t"))
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	if v.Exhausted {
		fmt.Fprintln(p.Stdout, "it does not fire again before the year 2201")
	}
	return nil
}

// zones says in words on which clocks the times are read.
func (v preview) zones() string {
	zone := v.Schedule.Zone
	if given := v.Schedule.ZoneGiven; given != zone {
		zone += fmt.Sprintf(" (given as %s)", given)
	}
	if v.Schedule.Clock == string(calendar.ClockRecipient) {
		return "on each recipient's clock, without one on that of " + zone
	}
	return zone
}

// opens is the heading of the schedule's own clocks.
func (v preview) opens() string {
	if v.Schedule.Clock == string(calendar.ClockRecipient) {
		return "OPENS"
	}
	return v.Schedule.Zone
}
