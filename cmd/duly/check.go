package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/progress"
	"duly.dev/duly/pkg/job"
)

const (
	// checkConns: one page after the other.
	checkConns = 1
	// maxFound is how many disagreements are listed; all are counted.
	maxFound = 1000
)

// checkCommand folds what happened and compares it with what is.
type checkCommand struct {
	Job  app.JobName `placeholder:"KIND/KEY" help:"Check this job only."`
	JSON bool        `name:"json" help:"Print one JSON object."`
	app.LedgerSettings
	app.LogSettings
}

// checkReport is what a check prints.
type checkReport struct {
	machine.Checked
	Found []machine.Disagreement `json:"found"`
}

// Run checks; it fails where anything disagrees.
func (c *checkCommand) Run(ctx context.Context, p *app.Process) error {
	stack := app.NewStack(p.Log)
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()
	l, err := compose.Ledger(ctx, &app.Service{Process: p, Log: p.Log, Stack: stack}, c.DatabaseURL, checkConns)
	if err != nil {
		return err
	}
	report := checkReport{Found: []machine.Disagreement{}}
	bar := progress.New(p.Stderr, "checking")
	request := ledger.CheckRequest{
		Kind: c.Job.Kind, Key: c.Job.Key,
		Progress: func(done machine.Checked, share float64) { bar.Show(share, note(done)) },
	}
	report.Checked, err = l.Check(ctx, request, func(d machine.Disagreement) error {
		if len(report.Found) < maxFound {
			report.Found = append(report.Found, d)
		}
		return nil
	})
	if request.Kind == "" && err == nil {
		bar.Done(1, note(report.Checked))
	}
	if errors.Is(err, job.ErrNotFound) {
		return app.Exit(app.ExitRefused, err)
	}
	if err = errors.Join(err, c.print(p, report)); err != nil {
		return err
	}
	if n := report.Disagreements; n > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("%s between what the ledger holds and what it says happened", disagreements(n)))
	}
	return nil
}

func note(done machine.Checked) string {
	return fmt.Sprintf("%d jobs, %s", done.Jobs, disagreements(done.Disagreements))
}

func disagreements(n int) string {
	if n == 1 {
		return "1 disagreement"
	}
	return fmt.Sprintf("%d disagreements", n)
}

func (c *checkCommand) print(p *app.Process, r checkReport) error {
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(r)
	}
	if len(r.Found) > 0 {
		t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "JOB\tGEN\tRULE\tSTORED\tFOLDED")
		for _, d := range r.Found {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", jobOf(d), generationOf(d), d.Rule, d.Stored, strings.Join(nonEmpty(d.Folded, d.Note), "; "))
		}
		if err := t.Flush(); err != nil {
			return fmt.Errorf("printing the table: %w", err)
		}
		if n := r.Disagreements - len(r.Found); n > 0 {
			fmt.Fprintf(p.Stdout, "… and %d more\n", n)
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "%d jobs with %d generations, %d events and %d leases, and %d runs: %s\n",
		r.Jobs, r.Generations, r.Events, r.Leases, r.Runs, disagreements(r.Disagreements))
	if r.Partly > 0 {
		_, err = fmt.Fprintf(p.Stdout, "%d generations were compared in part: a policy of theirs is not the kind's now, or their first events are kept no more\n", r.Partly)
	}
	return err
}

// jobOf names the job, or the run, of a disagreement; what leads to no job has a number
// only.
func jobOf(d machine.Disagreement) string {
	switch {
	case d.Schedule != "":
		return "run " + d.Schedule + " " + d.Period
	case d.Kind == "":
		return fmt.Sprintf("#%d", d.Job)
	}
	return d.Kind + "/" + d.Key
}

func generationOf(d machine.Disagreement) string {
	if d.Generation == 0 {
		return "-"
	}
	return fmt.Sprint(d.Generation)
}

func nonEmpty(all ...string) []string {
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}
