// Dispatcher announces on the bus what the ledger's outbox holds. Any number may run
// at once: each topic is relayed by one of them, and taken over within seconds when
// that one dies.
package main

import (
	"context"
	"os"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/dispatch"
)

// staleAfter is how old the last successful look at the outbox may be before the
// process counts as not ready.
const staleAfter = 15 * time.Second

// ledgerConns are enough for a few lanes that are busy at once; others wait.
const ledgerConns = 8

type grammar struct{ app.Settings }

// Run dispatches until ctx ends.
func (g *grammar) Run(ctx context.Context, p *app.Process) error {
	config, err := g.Load()
	if err != nil {
		return err
	}
	return app.Serve(ctx, p, g.AdminSettings, func(ctx context.Context, s *app.Service) error {
		ledger, err := compose.Ledger(ctx, s, g.DatabaseURL, ledgerConns)
		if err != nil {
			return err
		}
		bus, err := compose.Bus(ctx, s, g.BusURL, config)
		if err != nil {
			return err
		}
		packs := config.Packs()
		d, err := dispatch.New(dispatch.Options{
			Ledger: ledger, Bus: bus, Pack: func(lane string) int { return packs[lane] },
			Log: app.Component(s.Log, "dispatch"), Metrics: s.Registry,
			Succeeded: s.Readiness.Loop("dispatch", staleAfter),
		})
		if err != nil {
			return err
		}
		s.Group.Add("dispatch", d.Run)
		return nil
	})
}

func main() {
	os.Exit(app.Main(app.Program{
		Name: "duly-dispatcher", Description: "Announces on the bus what the ledger's outbox holds.", Grammar: &grammar{},
	}))
}
