package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/barchart"
)

// grammar are the commands; without one, the contestants are compared.
type grammar struct {
	Compare compareCommand `cmd:"" default:"withargs" help:"Measure all contestants side by side."`
	atSize

	Receive receiveCommand `cmd:"" hidden:"" help:"Be the receiver of a measurement with HTTP effects."`
}

func main() {
	os.Exit(app.Main(app.Program{
		Name: "bench", Description: "Measures Duly side by side with others, on one PostgreSQL at full durability.",
		Grammar: &grammar{}, LogText: true,
	}))
}

// compareCommand is what `go run .` takes.
type compareCommand struct {
	Rounds   int           `help:"How many rounds; medians are over them." default:"5"`
	Jobs     int           `help:"How many jobs the bulk measurements have." default:"100000"`
	Payload  int           `help:"The size of a payload, in bytes." default:"100"`
	Singles  time.Duration `help:"How long single transactions are measured." default:"5s"`
	Latency  time.Duration `help:"How long latency is measured." default:"10s"`
	Idle     time.Duration `help:"How long idle processes are watched." default:"15s"`
	Only     []string      `help:"Contestants, as patterns, such as duly,raw-*. All by default." placeholder:"NAME"`
	Measure  []string      `help:"Measurements, as patterns: insert, drain, both, singles-8, singles-32, latency-500, latency-2000, idle. All by default." placeholder:"NAME"`
	Postgres []string      `help:"Settings of the server, for everybody." placeholder:"NAME=VALUE"`
	Out      string        `help:"Folder for performance.md, .json and .svg; by default the table is printed." placeholder:"DIR"`
	Quick    bool          `help:"One short round, to see whether everything works; its figures mean nothing."`
}

// plan is what the flags ask for.
func (c compareCommand) plan() Plan {
	p := Plan{
		Rounds: c.Rounds, Jobs: c.Jobs, Singles: c.Singles, Latency: c.Latency, Idle: c.Idle,
		Only: c.Only, Measures: c.Measure, Load: Load{Payload: c.Payload},
	}
	if c.Quick {
		p.Rounds, p.Jobs, p.Hasty = 1, 2000, true
		p.Singles, p.Latency, p.Idle = 300*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	}
	return p
}

// Run measures and reports.
func (c compareCommand) Run(ctx context.Context, p *app.Process) (err error) {
	if c.Quick {
		warmUp = 100 * time.Millisecond
	}
	settings, err := assignments(c.Postgres)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	stack, err := startStack(ctx, settings, func(text string) { fmt.Fprintln(p.Stderr, text) })
	if err != nil {
		return err
	}
	defer func() {
		if e := stack.stop(); err == nil {
			err = e
		}
	}()
	server, err := stack.settings(ctx)
	if err != nil {
		return err
	}
	if err := durable(server); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	r := &runner{plan: c.plan(), stack: stack, out: p.Stderr}
	if err := r.invite(ctx, contestants()); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	report := r.report(ctx, server)
	if err := c.write(p, report); err != nil {
		return err
	}
	if failed := cells(report.Cells).failed(); len(failed) > 0 {
		return fmt.Errorf("%d measurements failed; the first: %s", len(failed), failed[0])
	}
	return nil
}

// write writes the report where it was asked for, and prints it where it was not.
func (c compareCommand) write(p *app.Process, r Report) error {
	var text bytes.Buffer
	if err := r.markdown(&text); err != nil {
		return err
	}
	if c.Out == "" {
		_, err := text.WriteTo(p.Stdout)
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("making the folder of the report: %w", err)
	}
	file := func(suffix string) string { return filepath.Join(c.Out, "performance."+suffix) }
	document, err := os.ReadFile(file("md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the document: %w", err)
	}
	whole, err := part{document: "performance.md", name: "compare", text: text.String()}.in(string(document))
	if err != nil {
		return err
	}
	figures, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	var drawing bytes.Buffer
	if err := barchart.Write(&drawing, r.panels()); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file("md"), []byte(whole), 0o644),
		os.WriteFile(file("json"), append(figures, '\n'), 0o644), os.WriteFile(file("svg"), drawing.Bytes(), 0o644))
}
