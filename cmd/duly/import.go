package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/internal/progress"
)

// maxShown is how many refused rows are shown without a report.
const maxShown = 10

// importConns: one batch after the other.
const importConns = 1

// OptionalLedger are LedgerSettings that need not be given.
type OptionalLedger app.LedgerSettings

type importCommand struct {
	File   string `arg:"" help:"File to import: .csv with a header, or .ndjson. Its columns: kind, key, subject, period, destination, due, deadline, zone, and payload or payload.NAME." placeholder:"FILE"`
	Report string `placeholder:"FILE" help:"Write the refused rows to this file (.csv or .ndjson), each with line, field, value and rule."`
	DryRun bool   `help:"Check the rows against the configuration and import nothing; needs no ledger."`
	Batch  int    `default:"500" help:"Rows a transaction (${default})."`
	JSON   bool   `name:"json" help:"Print the counts as one JSON object."`
	OptionalLedger
	app.ConfigSettings
	app.LogSettings
	patience
}

// Run imports the file. It fails when rows were refused; the others are imported.
func (c *importCommand) Run(ctx context.Context, p *app.Process) error {
	config, err := c.Load()
	if err != nil {
		return err
	}
	o := importer.Options{Batch: c.Batch}
	if o.Format, err = importer.FormatOf(c.File); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if o.Limits, o.Checkers, err = importer.Rules(config); err != nil {
		return err
	}
	file, err := os.Open(c.File)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	defer func() { _ = file.Close() }()
	stack := app.NewStack(p.Log)
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()
	if err := c.within(ctx, func(ctx context.Context) error { return c.openDoor(ctx, p, stack, config, &o) }); err != nil {
		return err
	}
	finish, err := c.report(p, file, &o)
	if err != nil {
		return err
	}
	counts, err := c.run(ctx, p, file, o)
	err = errors.Join(err, finish())
	return c.conclude(p, counts, err)
}

// openDoor connects to the ledger, unless it is a dry run.
func (c *importCommand) openDoor(ctx context.Context, p *app.Process, stack *app.Stack, config *app.Config, o *importer.Options) error {
	if c.DryRun {
		return nil
	}
	settings := app.LedgerSettings(c.OptionalLedger)
	if err := settings.AfterApply(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	pool, err := compose.Pool(ctx, &app.Service{Process: p, Log: p.Log, Stack: stack}, settings.DatabaseURL, importConns)
	if err != nil {
		return err
	}
	o.Door = importer.NewLedgerDoor(pool, config.MaxPayload)
	return nil
}

// report makes refused rows go to the report or, the first of them, to standard error.
func (c *importCommand) report(p *app.Process, input *os.File, o *importer.Options) (finish func() error, err error) {
	if c.Report == "" {
		shown := 0
		o.Refused = func(r importer.Refused) error {
			if shown++; shown <= maxShown {
				_, _ = fmt.Fprintf(p.Stderr, "line %d: %s %q: %s\n", r.Line, r.Field, r.Value, r.Text)
			}
			return nil
		}
		return func() error { return nil }, nil
	}
	format, err := importer.FormatOf(c.Report)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--report: %w", err))
	}
	if sameFile(input, c.Report) {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--report %s: it is the file that is to be imported; name another", c.Report))
	}
	file, err := os.Create(c.Report)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("--report: %w", err))
	}
	report, err := importer.NewReport(file, format)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	o.Refused = report.Add
	return func() error { return errors.Join(report.Flush(), file.Close()) }, nil
}

// sameFile reports whether the path names the open file, by whatever link.
func sameFile(open *os.File, path string) bool {
	a, err := open.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func (c *importCommand) run(ctx context.Context, p *app.Process, file *os.File, o importer.Options) (importer.Counts, error) {
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	bar := progress.New(p.Stderr, "importing")
	note := func(counts importer.Counts) string {
		rate := float64(counts.Rows) / max(bar.Elapsed().Seconds(), 1e-3)
		return fmt.Sprintf("%d rows, %d refused, %.0f rows/s", counts.Rows, counts.Refused, rate)
	}
	share := 0.0
	o.Progress = func(counts importer.Counts, read int64) {
		share = float64(read) / float64(max(size, 1))
		bar.Show(share, note(counts))
	}
	counts, err := importer.Run(ctx, io.Reader(file), o)
	if err == nil {
		share = 1
	}
	bar.Done(share, note(counts))
	return counts, err
}

// conclude prints the counts, unless nothing was begun.
func (c *importCommand) conclude(p *app.Process, counts importer.Counts, err error) error {
	if err != nil && counts.Rows == 0 {
		return app.Exit(app.ExitUsage, err)
	}
	if c.JSON {
		err = errors.Join(err, json.NewEncoder(p.Stdout).Encode(counts))
	} else {
		jobs := "new jobs"
		if c.DryRun {
			jobs = "rows that pass every check (a dry run: nothing was imported)"
		}
		_, _ = fmt.Fprintf(p.Stdout, "%d rows = %d %s + %d of a known key + %d refused\n", counts.Rows, counts.Jobs, jobs, counts.SameKey, counts.Refused)
	}
	switch {
	case err != nil:
		return err
	case counts.Refused > 0 && c.Report == "":
		return fmt.Errorf("%d of %d rows were refused; --report FILE keeps them all", counts.Refused, counts.Rows)
	case counts.Refused > 0:
		return fmt.Errorf("%d of %d rows were refused; %s says why", counts.Refused, counts.Rows, c.Report)
	}
	return nil
}
