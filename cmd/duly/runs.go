package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/schedule"
)

type runsCommand struct {
	Start runsStartCommand `cmd:"" help:"Open the run of a period now. A period has one run, however often it is asked for."`
}

type runsStartCommand struct {
	Name   string `arg:"" help:"The schedule's name in the configuration."`
	Period string `required:"true" placeholder:"PERIOD" help:"The period, as duly schedules preview prints it, such as 2026-W42."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
	actor
	app.LedgerSettings
	app.ConfigSettings
	app.LogSettings
}

// startedRun is what a start prints as JSON.
type startedRun struct {
	machine.Run

	// Created is false where the period had a run already, which is the one shown.
	Created bool `json:"created_now"`
}

// Run opens the run; a scheduler freezes it.
func (c *runsStartCommand) Run(ctx context.Context, p *app.Process) error {
	config, err := c.Load()
	if err != nil {
		return err
	}
	schedules, err := compose.Schedules(config)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(schedules, func(s schedule.Schedule) bool { return s.Name == c.Name })
	if i < 0 {
		return app.Exit(app.ExitRefused, fmt.Errorf("there is no schedule %q in %s; duly schedules list shows those that there are", c.Name, c.Config))
	}
	opening, err := schedules[i].Opening(c.Period, c.Actor, time.Now())
	if _, unknown := errors.AsType[*schedule.PeriodError](err); unknown {
		return app.Exit(app.ExitRefused, fmt.Errorf("%w; duly schedules preview %s shows more", err, c.Name))
	}
	if err != nil {
		return err
	}
	stack := app.NewStack(p.Log)
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()
	l, err := compose.Ledger(ctx, &app.Service{Process: p, Log: p.Log, Stack: stack}, c.DatabaseURL, 2)
	if err != nil {
		return err
	}
	run, created, err := l.StartRun(ctx, c.Name, schedules[i].Kind, opening)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(startedRun{run, created})
	}
	if created {
		_, err = fmt.Fprintf(p.Stdout, "Run %s of %s is open; a scheduler freezes its selection. dlq runs show %s %s tells how far it is.\n", run.Period, run.Schedule, run.Schedule, run.Period)
	} else {
		_, err = fmt.Fprintf(p.Stdout, "Period %s of %s has a run already: %s, %s since %s. Nothing was done.\n",
			run.Period, run.Schedule, run.State, run.Cause, run.Created.Format(time.RFC3339))
	}
	return err
}
