package compose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/pkg/job"
)

// staleFiring is how old the last decision about a schedule may be before the process
// counts as not ready.
const staleFiring = time.Minute

// RunLedger is the ledger as schedules of runs know it.
type RunLedger interface {
	schedule.RunLedger
	// UseSources names the databases that selections are asked of.
	UseSources(sources map[string]*pgxpool.Pool)
	// TrySelection says what a selection would return.
	TrySelection(ctx context.Context, s machine.Selection) ([]string, error)
}

// addRuns adds the loops of runs, where the configuration has schedules. Selections are
// tried beside them, so that one which can never work is told when a process starts and
// not at its first occurrence, while a source that is away, or was changed, stops nothing
// but its own runs.
func addRuns(ctx context.Context, s *app.Service, config *app.Config, ledger RunLedger, watch schedule.Watch) error {
	schedules, err := Schedules(config)
	if err != nil || len(schedules) == 0 {
		return err
	}
	if err := openSources(ctx, s, config, ledger); err != nil {
		return err
	}
	runs, err := schedule.NewRuns(schedule.RunOptions{
		Ledger: ledger, Watch: watch, Schedules: schedules, Retention: config.Retention,
		Log: app.Component(s.Log, "runs"), Metrics: s.Registry,
		Succeeded: s.Readiness.Loop("runs", staleFiring),
	})
	if err != nil {
		return err
	}
	s.Group.Add("runs", runs.Run)
	s.Group.Add("selections", func(ctx context.Context) error {
		trySelections(ctx, s, config, ledger)
		<-ctx.Done()
		return ctx.Err()
	})
	return nil
}

// trySelections tries the selections, those of one source after the other: a source that
// is away keeps nobody else's from being tried.
func trySelections(ctx context.Context, s *app.Service, config *app.Config, ledger RunLedger) {
	bySource := map[string][]app.Schedule{}
	for _, one := range config.Schedules() {
		bySource[one.Source] = append(bySource[one.Source], one)
	}
	var trying sync.WaitGroup
	for _, schedules := range bySource {
		trying.Go(func() {
			for _, one := range schedules {
				if err := trySelection(ctx, s, ledger, one); err != nil && ctx.Err() == nil {
					app.Component(s.Log, "runs").ErrorContext(ctx, "no run of this schedule can be frozen until this is repaired", "schedule", one.Name, "error", err)
				}
			}
		})
	}
	trying.Wait()
}

// connectBound is what connecting to a source may take.
const connectBound = 10 * time.Second

// Schedules are the configuration's, as the loops know them.
func Schedules(config *app.Config) ([]schedule.Schedule, error) {
	checkers, err := config.Checkers()
	if err != nil {
		return nil, err
	}
	var all []schedule.Schedule
	for _, one := range config.Schedules() {
		all = append(all, schedule.Schedule{
			Name: one.Name, Kind: one.Kind, When: one.When, Key: one.Key, Query: one.Select, Source: one.Database(), Deadline: one.Deadline,
			MaxPayload: config.MaxPayload, LateBound: one.LateBound,
			Check: func(destination string, payload []byte) *job.Refusal {
				return checkers.Check(one.Kind, destination, payload)
			},
		})
	}
	return all, nil
}

// openSources connects to the databases of the configuration that selections are asked of.
func openSources(ctx context.Context, s *app.Service, config *app.Config, ledger RunLedger) error {
	urls, err := config.Sources()
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	sources := make(map[string]*pgxpool.Pool, len(urls))
	for name, url := range urls {
		c, err := sourceConfig(s, name, url)
		if err != nil {
			return err
		}
		c.MaxConns, c.MinConns = 2, 0
		pool, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			return fmt.Errorf("connecting to source %s: %w", name, err)
		}
		s.Stack.Push("source "+name, closeBound, func(context.Context) error { pool.Close(); return nil })
		sources[name] = pool
	}
	ledger.UseSources(sources)
	return nil
}

// sourceConfig is how a source is connected to. What its secret says is in no error.
func sourceConfig(s *app.Service, name, url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, app.Exit(app.ExitUsage, fmt.Errorf("sources.%s: it must be a PostgreSQL connection string", name))
	}
	c.ConnConfig.ConnectTimeout = connectBound
	params := c.ConnConfig.RuntimeParams
	params["client_encoding"] = "UTF8" // values are read as texts
	params["application_name"] = cmp.Or(params["application_name"], s.Process.Name)
	return c, nil
}

// trySelection is an error for a selection that the server does not understand, or that
// lacks a column, and for a server that refuses to be asked. One that does not answer is
// waited for.
func trySelection(ctx context.Context, s *app.Service, ledger RunLedger, one app.Schedule) error {
	selection := machine.Selection{Query: one.Select, Source: one.Database()}
	return app.Retry(ctx, s.Log, "the source of schedule "+one.Name, func(ctx context.Context) error {
		columns, err := ledger.TrySelection(ctx, selection)
		if errors.Is(err, machine.ErrSelection) {
			return app.Permanent(app.Exit(app.ExitUsage, fmt.Errorf("schedules.%s.select: %w", one.Name, err)))
		}
		if err != nil {
			return refused(err)
		}
		var missing []string
		for _, name := range one.Columns() {
			if !slices.Contains(columns, name) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return app.Permanent(app.Exit(app.ExitUsage, fmt.Errorf("schedules.%s.select: it has no column %s; it has %s",
				one.Name, strings.Join(missing, ", "), strings.Join(columns, ", "))))
		}
		return nil
	})
}
