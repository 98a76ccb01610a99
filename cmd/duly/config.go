package main

import (
	"encoding/json"
	"fmt"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/app/strictyaml"
)

type configCommand struct {
	Check configCheckCommand `cmd:"" help:"Check a configuration, and show it with every default filled in."`
}

type configCheckCommand struct {
	app.ConfigSettings

	JSON bool `name:"json" help:"Print one JSON object."`
}

// checked is what the command prints as JSON: a summary, or what is wrong.
type checked struct {
	OK       bool                  `json:"ok"`
	Problems []*strictyaml.Problem `json:"problems,omitempty"`
	*app.Summary
}

// Run prints the configuration, or everything that is wrong with it.
func (c *configCheckCommand) Run(p *app.Process) error {
	config, err := app.LoadConfig(c.Config)
	problems := app.Problems(err)
	if err != nil && len(problems) == 0 {
		return app.Exit(app.ExitUsage, err)
	}
	if err != nil {
		return c.refuse(p, problems)
	}
	summary := config.Summary()
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(checked{OK: true, Summary: &summary})
	}
	return summary.Table(p.Stdout)
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
