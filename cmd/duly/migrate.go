package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/ledger"
)

type migrateCommand struct {
	Up     migrateUpCommand     `cmd:"" help:"Apply the migrations that the ledger does not have. Several may run at once."`
	Status migrateStatusCommand `cmd:"" help:"List the migrations."`
	Check  migrateCheckCommand  `cmd:"" help:"Fail unless the ledger's schema is this program's."`
}

type migrateUpCommand struct {
	app.LedgerSettings
	app.LogSettings
}

// Run migrates; while the ledger is down it waits.
func (c *migrateUpCommand) Run(ctx context.Context, p *app.Process) error {
	if err := compose.Reach(ctx, p.Log, c.DatabaseURL); err != nil {
		return err
	}
	if err := ledger.MigrateUp(ctx, c.DatabaseURL); err != nil {
		return fmt.Errorf("migrating the ledger at %s: %w", app.Where(c.DatabaseURL), err)
	}
	return (&migrateStatusCommand{LedgerSettings: c.LedgerSettings}).show(ctx, p)
}

// patience bounds the wait for a ledger that does not answer, where a person waits.
type patience struct {
	Wait time.Duration `default:"10s" help:"How long to wait for a ledger that does not answer (${default})."`
}

// within gives do that long.
func (w patience) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.Wait)
	defer cancel()
	return do(ctx)
}

type migrateStatusCommand struct {
	app.LedgerSettings
	app.LogSettings
	patience

	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists the migrations.
func (c *migrateStatusCommand) Run(ctx context.Context, p *app.Process) error {
	if err := c.within(ctx, func(ctx context.Context) error { return compose.Reach(ctx, p.Log, c.DatabaseURL) }); err != nil {
		return err
	}
	return c.show(ctx, p)
}

func (c *migrateStatusCommand) show(ctx context.Context, p *app.Process) error {
	migrations, err := ledger.Migrations(ctx, c.DatabaseURL)
	if err != nil {
		return fmt.Errorf("reading the migrations of the ledger at %s: %w", app.Where(c.DatabaseURL), err)
	}
	if c.JSON {
		return json.NewEncoder(p.Stdout).Encode(migrations)
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tMIGRATION\tSTATE")
	for _, m := range migrations {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\n", m.Version, m.Name, state)
	}
	return t.Flush()
}

type migrateCheckCommand struct {
	app.LedgerSettings
	app.LogSettings
	patience
}

// Run fails unless the schema is this program's.
func (c *migrateCheckCommand) Run(ctx context.Context, p *app.Process) error {
	if err := c.within(ctx, func(ctx context.Context) error { return compose.Reach(ctx, p.Log, c.DatabaseURL) }); err != nil {
		return err
	}
	err := ledger.CheckSchema(ctx, c.DatabaseURL)
	if errors.Is(err, ledger.ErrSchema) {
		return app.Exit(app.ExitFailed, err)
	}
	if err == nil {
		_, _ = fmt.Fprintln(p.Stdout, "the schema of the ledger at "+app.Where(c.DatabaseURL)+" is this program's")
	}
	return err
}
