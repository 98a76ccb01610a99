package main

import (
	"context"
	"fmt"
	"strconv"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

type runsCommand struct {
	List    runsListCommand    `cmd:"" default:"withargs" help:"List runs, the newest first."`
	Show    runsShowCommand    `cmd:"" help:"Show a run: how it came about, how far its members are, and what was refused."`
	Refused runsRefusedCommand `cmd:"" help:"List the rows of a run's selection that became no member, with the reason of each."`
}

type runsListCommand struct {
	Schedule string `placeholder:"NAME" help:"Runs of this schedule."`
	Limit    int    `default:"20" help:"The most runs (${default})."`
	Before   int64  `placeholder:"ID" help:"Go on behind the run of this id."`
}

// Run prints runs. It does not count members, which takes long where there are millions.
func (c *runsListCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	return listing[machine.Run]{
		name: "runs",
		ask: func(l *ledger.Ledger) ([]machine.Run, error) {
			return l.Runs(ctx, machine.RunFilter{Schedule: c.Schedule, Before: c.Before, Limit: c.Limit})
		},
		none:    "no runs",
		heading: []string{"ID", "SCHEDULE", "PERIOD", "STATE", "CAUSE", "OCCURRENCE", "FROZEN", "SELECTED", "REFUSED", "EXPECTED", "ERROR"},
		row: func(r machine.Run) []string {
			return []string{
				strconv.FormatInt(r.ID, 10), r.Schedule, r.Period, stateOf(r), string(r.Cause), at(r.At), at(r.Frozen),
				strconv.FormatInt(r.Selected, 10), strconv.FormatInt(r.Refused, 10), strconv.FormatInt(r.Expected(), 10), cut(r.Error, 60),
			}
		},
	}.show(ctx, p, s)
}

// stateOf says how far a run is, in a word.
func stateOf(r machine.Run) string {
	switch {
	case r.State == machine.RunOpen && r.Tries > 0:
		return "failing"
	case !r.Finished.IsZero():
		return "finished"
	}
	return string(r.State)
}

type runsShowCommand struct {
	Schedule string `arg:"" help:"The schedule."`
	Period   string `arg:"" help:"The period."`
}

// shownRun is a run as it is printed.
type shownRun struct {
	machine.Run

	Expected int64             `json:"expected"`
	Members  machine.RunCounts `json:"members"`
	Pending  int64             `json:"pending"`
	// Complete is the completeness equation: every expected member is counted once.
	Complete bool `json:"complete"`
}

// Run prints the run with its completeness equation.
func (c *runsShowCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	l, closing, err := s.open(ctx, p)
	defer closing()
	if err != nil {
		return err
	}
	run, counts, err := l.ShowRun(ctx, c.Schedule, c.Period)
	if err != nil {
		return err
	}
	v := shownRun{Run: run, Expected: run.Expected(), Members: counts, Pending: counts.Pending(), Complete: counts.All() == run.Expected()}
	printing := func() error { return c.print(p, v) }
	if s.JSON {
		printing = func() error { return printJSON(p.Stdout, v) }
	}
	if err := printing(); err != nil {
		return err
	}
	if !v.Complete {
		return app.Exit(app.ExitFailed, fmt.Errorf("run %s of %s expects %d members, and %d were counted", run.Period, run.Schedule, v.Expected, counts.All()))
	}
	return nil
}

func (c *runsShowCommand) print(p *app.Process, v shownRun) error {
	lines := [][2]string{
		{"run", fmt.Sprintf("%s of %s (id %d), kind %s", v.Period, v.Schedule, v.ID, v.Kind)},
		{"occurrence", fmt.Sprintf("%s (%s in %s)", at(v.At), v.Local, v.Zone)},
		{"opened", fmt.Sprintf("%s, %s by %s", at(v.Created), v.Cause, v.Actor)},
	}
	if v.State == machine.RunOpen {
		wait := "open: a scheduler is going to freeze its selection"
		if v.Tries > 0 {
			wait = fmt.Sprintf("open: its freeze failed %d times, and is tried again at %s: %s", v.Tries, at(v.Next), v.Error)
		}
		lines = append(lines, [2]string{"state", wait})
	} else {
		lines = append(lines,
			[2]string{"frozen", fmt.Sprintf("%s, keys %s, zone data %s", at(v.Frozen), cut(v.Digest, 16), orDash(v.ZoneData))},
			[2]string{"selected", fmt.Sprintf("%d = %d refused + %d expected", v.Selected, v.Refused, v.Expected)},
			[2]string{"expected", fmt.Sprintf("%d = %d delivered + %d quarantined + %d cancelled + %d unknown + %d pending", v.Expected,
				v.Members[job.Delivered], v.Members[job.Quarantined], v.Members[job.Cancelled], v.Members[job.Unknown], v.Pending)},
		)
		if v.Linked > 0 {
			lines = append(lines, [2]string{"linked", fmt.Sprintf("%d of them existed before", v.Linked)})
		}
		if !v.Finished.IsZero() {
			lines = append(lines, [2]string{"finished", at(v.Finished)})
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(p.Stdout, "%-11s %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

type runsRefusedCommand struct {
	Schedule string `arg:"" help:"The schedule."`
	Period   string `arg:"" help:"The period."`
	Limit    int    `default:"100" help:"The most rows (${default})."`
	Behind   int64  `placeholder:"ROW" help:"Go on behind this row of the selection."`
}

// Run prints what became no member.
func (c *runsRefusedCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	return listing[machine.RefusedRow]{
		name: "refused",
		ask: func(l *ledger.Ledger) ([]machine.RefusedRow, error) {
			run, err := l.Run(ctx, c.Schedule, c.Period)
			if err != nil {
				return nil, err
			}
			return l.RunRefusals(ctx, run.ID, c.Behind, c.Limit)
		},
		none:    "nothing was refused",
		heading: []string{"ROW", "KEY", "SUBJECT", "FIELD", "RULE"},
		row: func(r machine.RefusedRow) []string {
			why := r.Rule.Text()
			if r.More != "" {
				why += " (" + r.More + ")"
			}
			return []string{strconv.FormatInt(r.Row, 10), r.Key, r.Subject, r.Field, why}
		},
	}.show(ctx, p, s)
}

type schedulesCommand struct {
	Name  string `arg:"" help:"The schedule."`
	Limit int    `default:"20" help:"The most occurrences (${default})."`
}

// Run prints what became of a schedule's occurrences: fired, late, skipped or missed, and
// why.
func (c *schedulesCommand) Run(ctx context.Context, p *app.Process, s *shared) error {
	return listing[machine.Occurrence]{
		name:    "occurrences",
		ask:     func(l *ledger.Ledger) ([]machine.Occurrence, error) { return l.Occurrences(ctx, c.Name, c.Limit) },
		none:    "no occurrence of " + c.Name + " is recorded",
		heading: []string{"OCCURRENCE", "UNTIL", "COUNT", "OUTCOME", "PERIOD", "WHY", "RECORDED"},
		row: func(o machine.Occurrence) []string {
			count, last, period := "", "", o.Period
			if o.Count > 1 {
				count, last, period = strconv.FormatInt(o.Count, 10), at(o.Last), o.Period+" to "+o.LastPeriod
			}
			return []string{at(o.At), last, count, string(o.Outcome), period, o.Why, at(o.Recorded)}
		},
	}.show(ctx, p, s)
}
