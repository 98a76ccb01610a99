package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/app/strictyaml"
	"duly.dev/duly/internal/compose"
)

type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Check a configuration, and show it with every default filled in."`
}

type configCheckCommand struct {
	app.ConfigSettings

	JSON    bool          `name:"json" help:"Print one JSON object."`
	Against string        `placeholder:"URL" help:"Also say what the ledger at this address holds that this configuration leaves undone."`
	Wait    time.Duration `default:"10s" help:"How long to wait for a ledger that does not answer (${default})."`
	app.LogSettings
}

// checked is what the command prints as JSON: a summary, or what is wrong.
type checked struct {
	OK       bool                  `json:"ok"`
	Problems []*strictyaml.Problem `json:"problems,omitempty"`
	*app.Summary
}

// Run prints the configuration, or everything that is wrong with it.
func (c *configCheckCommand) Run(ctx context.Context, p *app.Process) error {
	config, err := app.LoadConfig(c.Config)
	problems := app.Problems(err)
	if err != nil && len(problems) == 0 {
		return app.Exit(app.ExitUsage, err)
	}
	if err != nil {
		return c.refuse(p, problems)
	}
	summary := config.Summary()
	undone, err := c.undone(ctx, p, config)
	if err != nil {
		return err
	}
	summary.Warnings = append(summary.Warnings, undone...)
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(checked{OK: true, Summary: &summary})
	}
	return summary.Table(p.Stdout)
}

// undone says what the ledger holds that nobody does under the configuration.
func (c *configCheckCommand) undone(ctx context.Context, p *app.Process, config *app.Config) ([]string, error) {
	if c.Against == "" {
		return nil, nil
	}
	stack := app.NewStack(p.Log)
	defer func() { _ = stack.Stop(context.WithoutCancel(ctx)) }()
	reach, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	l, err := compose.Ledger(reach, &app.Service{Process: p, Log: p.Log, Stack: stack}, c.Against, 1)
	if err != nil {
		return nil, err
	}
	gateless, err := l.GatelessCleanups(ctx, config.Kinds())
	var all []string
	for _, g := range gateless {
		all = append(all, g.String())
	}
	return all, err
}

func (c *configCheckCommand) refuse(p *app.Process, problems []*strictyaml.Problem) error {
	if c.JSON {
		if err := json.NewEncoder(p.Stdout).Encode(checked{Problems: problems}); err != nil {
			return err
		}
	} else {
		for _, problem := range problems {
			_, _ = fmt.Fprintln(p.Stdout, problem)
		}
	}
	word := "problems"
	if len(problems) == 1 {
		word = "problem"
	}
	return app.Exit(app.ExitUsage, fmt.Errorf("%s has %d %s", c.Config, len(problems), word))
}
