package app

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/calendar"
)

// Summary is a configuration for people and scripts: defaults filled in, durations
// written out, nothing secret.
type Summary struct {
	File       string            `json:"file"`
	Prefix     string            `json:"prefix"`
	MaxPayload string            `json:"max_payload"`
	Retention  string            `json:"retention"`
	Worker     WorkerSummary     `json:"worker"`
	Lanes      []Lane            `json:"lanes"`
	Kinds      []KindSummary     `json:"kinds"`
	Schedules  []ScheduleSummary `json:"schedules"`
	Warnings   []string          `json:"warnings"`
}

// WorkerSummary is WorkerConfig for people.
type WorkerSummary struct {
	Slots      int    `json:"slots"`
	LeaseTime  string `json:"lease_time"`
	Heartbeat  string `json:"heartbeat"`
	Drain      string `json:"drain"`
	PauseBound string `json:"pause_bound"`
}

// KindSummary is a kind for people.
type KindSummary struct {
	Name            string   `json:"name"`
	Lane            string   `json:"lane"`
	Channel         string   `json:"channel"`
	Limit           string   `json:"limit"`
	MaxAttempts     int32    `json:"max_attempts"`
	MaxAge          string   `json:"max_age"`
	MaxLifetime     string   `json:"max_lifetime"`
	Base            string   `json:"base"`
	Cap             string   `json:"cap"`
	Jitter          float64  `json:"jitter"`
	UnclassifiedCap int32    `json:"unclassified_cap"`
	MaxHold         string   `json:"max_hold"`
	Window          string   `json:"window,omitempty"`
	Lookup          string   `json:"lookup,omitempty"`
	Settle          string   `json:"settle"`
	ResolveWithin   string   `json:"resolve_within"`
	AfterDoubt      string   `json:"after_doubt"`
	Codes           []string `json:"codes,omitempty"`
	RedriveBy       string   `json:"redrive_by"`
	Cleanup         string   `json:"cleanup,omitempty"`
	Resolve         string   `json:"resolve,omitempty"`
	// Hash is what events name the kind's policy by.
	Hash string `json:"hash"`
}

// ScheduleSummary is a schedule for people.
type ScheduleSummary struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// When is the cron expression, the interval or the business days.
	When string `json:"when"`
	// Zone is the zone of all wall times, by its name of today; ZoneGiven is how it was
	// written.
	Zone      string `json:"zone"`
	ZoneGiven string `json:"zone_given"`
	Clock     string `json:"clock"`
	// Gap and Overlap are empty where time only elapses.
	Gap          string `json:"gap,omitempty"`
	Overlap      string `json:"overlap,omitempty"`
	Period       string `json:"period"`
	Key          string `json:"key"`
	Window       string `json:"window"`
	CatchUp      string `json:"catch_up"`
	CatchUpMax   int    `json:"catch_up_max,omitempty"`
	WhileRunning string `json:"while_running"`
	Source       string `json:"source"`
	// Columns are those that the selection must have.
	Columns []string `json:"columns"`
}

// Summary returns the configuration for people and scripts.
func (c *Config) Summary() Summary {
	s := Summary{
		File: c.File, Prefix: c.Prefix, MaxPayload: strictyaml.Size(c.MaxPayload).String(), Lanes: c.Lanes,
		Retention: text(c.Retention),
		Worker: WorkerSummary{
			Slots: c.Worker.Slots, LeaseTime: text(c.Worker.LeaseTime), Heartbeat: text(c.Worker.Heartbeat),
			Drain: text(c.Worker.Drain), PauseBound: text(c.Worker.PauseBound),
		},
		Warnings: append([]string{}, c.warnings...),
	}
	for _, k := range c.kinds {
		s.Kinds = append(s.Kinds, k.summary())
	}
	s.Schedules = []ScheduleSummary{}
	for _, schedule := range c.schedules {
		s.Schedules = append(s.Schedules, schedule.Summary())
	}
	return s
}

func (k Kind) summary() KindSummary {
	p := k.Policy
	s := KindSummary{
		Name: k.Name, Lane: k.Lane, Channel: k.Channel,
		Limit: text(p.Limit), MaxAttempts: p.MaxAttempts, MaxAge: text(p.MaxAge), MaxLifetime: text(p.MaxLifetime),
		Base: text(p.Base), Cap: text(p.Cap), Jitter: p.Jitter, UnclassifiedCap: p.UnclassifiedCap, MaxHold: text(p.MaxHold),
		Settle: text(k.Promises.Settle), ResolveWithin: text(k.Promises.ResolveWithin),
		AfterDoubt: "a person decides", RedriveBy: string(k.RedriveBy), Hash: k.Hash(),
	}
	s.Cleanup, s.Resolve = cleanupText(k.Cleanup), k.Resolve.text()
	s.Lookup = string(k.Promises.Lookup)
	if s.Lookup != "" {
		s.AfterDoubt = "ask by " + s.Lookup
	}
	if k.Promises.Window > 0 {
		s.Window = text(k.Promises.Window)
		repeat := "repeat within " + s.Window
		if s.Lookup != "" {
			repeat += ", then " + s.AfterDoubt
		}
		s.AfterDoubt = repeat
	}
	for _, code := range k.Codes {
		s.Codes = append(s.Codes, string(code))
	}
	return s
}

// Summary returns the schedule for people and scripts.
func (s Schedule) Summary() ScheduleSummary {
	w := s.When
	gap, overlap := w.ClockRules()
	policy, most := w.CatchUp()
	if policy != calendar.CatchUpAll {
		most = 0
	}
	return ScheduleSummary{
		Name: s.Name, Kind: s.Kind, When: w.String(), Zone: w.Zone().Name(), ZoneGiven: w.Zone().Given(), Clock: string(w.Clock()),
		Gap: string(gap), Overlap: string(overlap), Period: string(w.Period()), Key: s.Key.String(), Window: text(w.Window()),
		CatchUp: string(policy), CatchUpMax: most, WhileRunning: string(w.WhileRunning()), Source: s.Source, Columns: s.Columns(),
	}
}

// Table writes the summary as tables.
func (s Summary) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tLANE\tCHANNEL\tLIMIT\tATTEMPTS\tBACKOFF\tMAX AGE\tLIFETIME\tAFTER DOUBT\tREDRIVE BY\tPOLICY")
	for _, k := range s.Kinds {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s to %s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.Lane, k.Channel, k.Limit, k.MaxAttempts,
			k.Base, k.Cap, k.MaxAge, k.MaxLifetime, k.AfterDoubt, k.RedriveBy, k.Hash)
	}
	for _, k := range s.Kinds {
		for _, part := range []struct{ name, what string }{{"destinations", k.Resolve}, {"cleanup", k.Cleanup}} {
			if part.what != "" {
				fmt.Fprintf(t, "\n%s of %s\t%s", part.name, k.Name, part.what)
			}
		}
	}
	fmt.Fprintln(t, "\nLANE\tPACK\tKINDS")
	for _, l := range s.Lanes {
		fmt.Fprintf(t, "%s\t%d\t%s\n", l.Name, l.Pack, strings.Join(l.Kinds, ", "))
	}
	if len(s.Schedules) > 0 {
		fmt.Fprintln(t, "\nSCHEDULE\tKIND\tWHEN\tZONE\tPERIOD\tGAP\tOVERLAP\tWINDOW\tCATCH UP\tWHILE RUNNING\tKEY")
	}
	for _, w := range s.Schedules {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", w.Name, w.Kind, w.When, w.Zone, w.Period, w.Gap, w.Overlap,
			w.Window, w.CatchUp, w.WhileRunning, w.Key)
	}
	fmt.Fprintf(t, "\nworker\t%d slots, lease %s, heartbeat %s, drain %s, pause bound %s\n", s.Worker.Slots, s.Worker.LeaseTime,
		s.Worker.Heartbeat, s.Worker.Drain, s.Worker.PauseBound)
	fmt.Fprintf(t, "payload\tat most %s\n", s.MaxPayload)
	fmt.Fprintf(t, "retention\t%s after a job's end\n", s.Retention)
	fmt.Fprintf(t, "prefix\t%s\n", s.Prefix)
	for _, warning := range s.Warnings {
		fmt.Fprintf(t, "\nwarning: %s\n", warning)
	}
	return t.Flush()
}
