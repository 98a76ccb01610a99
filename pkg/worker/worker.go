// Package worker runs a worker of your own: it performs the kinds of duly.yaml, those
// with channel go by the handlers that you give it.
//
// A worker takes references from the bus, leases their jobs in the ledger, performs
// them and commits what came of it. Any number may run at once, of different
// versions too: work of a kind that a worker does not know is held, not failed. The
// order to stop (SIGTERM, or the end of the context) costs nothing: what runs may
// end, what did not begin is handed back uncounted.
//
// Main is a whole program, with flags, signals and exit code; Run is the same inside
// a program of yours.
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/pkg/handler"
)

// Handlers perform the kinds whose channel in duly.yaml is go, by the kind's name.
type Handlers map[string]handler.Handler

// Config says where a worker finds what it needs. The zero value takes everything
// from the environment, as the programs of Duly do; a field that is set comes first.
type Config struct {
	// DatabaseURL is where the ledger is. Default: DULY_DATABASE_URL, or the content of
	// the file that DULY_DATABASE_URL_FILE names.
	DatabaseURL string
	// BusURL is where the bus is. Default: DULY_BUS_URL or DULY_BUS_URL_FILE.
	BusURL string
	// BusNextURL is the bus that lanes are going to be moved to; work is taken from both.
	// Default: DULY_BUS_NEXT_URL or DULY_BUS_NEXT_URL_FILE.
	BusNextURL string
	// File is the configuration. Default: DULY_CONFIG, else duly.yaml.
	File string
	// AdminAddr is where /metrics, /livez and /readyz are served. Default:
	// DULY_ADMIN_ADDR, else a free port of 127.0.0.1, which is logged.
	AdminAddr string
	// Name is shown in traces and to the ledger's and the bus's operators. Default
	// "duly-worker".
	Name string
	// Log gets what an operator should know. Default: JSON on standard error.
	Log *slog.Logger
}

// Run runs a worker until ctx ends, drains, and returns nil when nothing was left
// over. While the ledger or the bus cannot be reached it waits and says so. A handler
// for a kind that the configuration does not have, or has with another channel, is an
// error.
func Run(ctx context.Context, c Config, handlers Handlers) error {
	settings, process, err := c.resolve()
	if err != nil {
		return err
	}
	return run(ctx, process, settings, handlers)
}

// Main runs a worker as the whole of a program: flags and environment say where things
// are (--help lists them), SIGTERM and SIGINT order it to stop. It returns the exit
// code, for os.Exit.
func Main(handlers Handlers) int {
	return app.Main(app.Program{
		Name: "duly-worker", Description: "Performs what the ledger says is due.", Grammar: &grammar{handlers: handlers},
	})
}

// grammar are the flags of Main.
type grammar struct {
	app.Settings

	handlers Handlers
}

// Run is called by the process kit.
func (g *grammar) Run(ctx context.Context, p *app.Process) error {
	return run(ctx, p, g.Settings, g.handlers)
}

func run(ctx context.Context, p *app.Process, settings app.Settings, handlers Handlers) error {
	config, err := settings.Load()
	if err != nil {
		return err
	}
	return app.Serve(ctx, p, settings.AdminSettings, func(ctx context.Context, s *app.Service) error {
		ledger, err := compose.Ledger(ctx, s, settings.DatabaseURL, compose.WorkerConns(config))
		if err != nil {
			return err
		}
		heart, err := compose.Heart(ctx, s, settings.DatabaseURL, ledger)
		if err != nil {
			return err
		}
		buses, err := compose.OpenBuses(ctx, s, settings.BusSettings, config)
		if err != nil {
			return err
		}
		return compose.Worker(s, config, compose.WorkerParts{Ledger: ledger, Heart: heart, Buses: buses, Handlers: handlers, Asking: ledger, Resolving: ledger})
	})
}

// resolve fills in from the environment what is not set.
func (c Config) resolve() (app.Settings, *app.Process, error) {
	s := app.Settings{
		LedgerSettings: app.LedgerSettings{DatabaseURL: c.DatabaseURL},
		BusSettings:    app.BusSettings{BusURL: c.BusURL, NextURL: c.BusNextURL},
		ConfigSettings: app.ConfigSettings{Config: cmp.Or(c.File, os.Getenv("DULY_CONFIG"), "duly.yaml")},
		AdminSettings:  app.AdminSettings{AdminAddr: cmp.Or(c.AdminAddr, os.Getenv("DULY_ADMIN_ADDR"), "127.0.0.1:0")},
	}
	if c.DatabaseURL == "" {
		s.DatabaseURL, s.DatabaseURLFile = os.Getenv("DULY_DATABASE_URL"), os.Getenv("DULY_DATABASE_URL_FILE")
	}
	if c.BusURL == "" {
		s.BusURL, s.BusURLFile = os.Getenv("DULY_BUS_URL"), os.Getenv("DULY_BUS_URL_FILE")
	}
	if c.BusNextURL == "" {
		s.NextURL, s.NextFile = os.Getenv("DULY_BUS_NEXT_URL"), os.Getenv("DULY_BUS_NEXT_URL_FILE")
	}
	p := &app.Process{Name: cmp.Or(c.Name, "duly-worker"), Version: app.Version(), Log: c.Log, Stdout: os.Stdout, Stderr: os.Stderr}
	if p.Log == nil {
		p.Log = app.NewLogger(os.Stderr, slog.LevelInfo, false)
	}
	err := errors.Join(s.LedgerSettings.AfterApply(), s.BusSettings.AfterApply())
	return s, p, err
}
