// Scheduler makes ready what is due, and finds what should have happened and did not:
// dead workers, leases and deadlines that are over, outcomes that nobody answered,
// references that the bus lost, jobs whose retention is over. Any number may run at
// once, without a leader.
package main

import (
	"context"
	"os"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
)

// grammar has no bus: the scheduler works on the ledger alone.
type grammar struct {
	app.LedgerSettings
	app.ConfigSettings
	app.AdminSettings
	app.LogSettings
}

// Run schedules until ctx ends.
func (g *grammar) Run(ctx context.Context, p *app.Process) error {
	config, err := g.Load()
	if err != nil {
		return err
	}
	return app.Serve(ctx, p, g.AdminSettings, func(ctx context.Context, s *app.Service) error {
		ledger, err := compose.Ledger(ctx, s, g.DatabaseURL, compose.SchedulerConns)
		if err != nil {
			return err
		}
		return compose.Scheduler(ctx, s, config, ledger)
	})
}

func main() {
	os.Exit(app.Main(app.Program{
		Name: "duly-scheduler", Description: "Makes ready what is due, and finds what should have happened and did not.", Grammar: &grammar{},
	}))
}
