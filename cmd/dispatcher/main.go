// Dispatcher announces on the bus what the ledger's outbox holds. Any number may run
// at once: each topic is relayed by one of them, and taken over within seconds when
// that one dies.
package main

import (
	"context"
	"os"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
)

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
		buses, err := compose.OpenBuses(ctx, s, g.BusSettings, config)
		if err != nil {
			return err
		}
		return compose.Dispatcher(s, config, ledger, buses)
	})
}

func main() {
	os.Exit(app.Main(app.Program{
		Name: "duly-dispatcher", Description: "Announces on the bus what the ledger's outbox holds.", Grammar: &grammar{},
	}))
}
