package compose

import (
	"context"
	"fmt"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/handler"
)

// CleanerOpener opens statements that clean up in the ledger's own database.
type CleanerOpener interface {
	OpenCleaner(ctx context.Context, o ledger.CleanerOptions) (*ledger.Cleaner, error)
}

// addCleanups adds what cleans up behind jobs by statements: one janitor for each kind.
func addCleanups(s *app.Service, config *app.Config, own CleanerOpener, watch sweep.Steady) {
	for _, kind := range config.Kinds() {
		if k, _ := config.Kind(kind.Name); k.Gate != nil && k.Gate.Go == nil {
			addCleanup(s, k, own, watch)
		}
	}
}

func addCleanup(s *app.Service, k app.Kind, own CleanerOpener, watch sweep.Steady) {
	name := "cleanup of kind " + k.Name
	s.Group.Add(name, func(ctx context.Context) error {
		var opened *ledger.Cleaner
		err := openBeside(ctx, app.Component(s.Log, "cleanup"), "cleanup.statement", k.Name, func(ctx context.Context) (err error) {
			opened, err = own.OpenCleaner(ctx, ledger.CleanerOptions{Kind: k.Name, Statement: k.Gate.Statement, Timeout: k.Gate.Timeout})
			return err
		})
		if err != nil {
			return err
		}
		s.Stack.Push(name, closeBound, func(context.Context) error { opened.Close(); return nil })
		janitor, err := newJanitor(s, watch, []sweep.Cleanable{{Kind: k.Name, Cleaner: opened, Timeout: k.Gate.Timeout}})
		if err != nil {
			return err
		}
		return janitor.Run(ctx)
	})
}

// workerCleanups are the kinds that a worker cleans up behind, by functions beside their
// handlers. Such a function must be declared, and what is declared must be there.
func workerCleanups(config *app.Config, handlers map[string]handler.Handler, cleanups sweep.Cleanups) ([]sweep.Cleanable, error) {
	var all []sweep.Cleanable
	for _, kind := range config.Kinds() {
		k, _ := config.Kind(kind.Name)
		h := handlers[k.Name]
		if h == nil {
			continue
		}
		clean, declared := handler.CleanupOf(h), k.Gate != nil && k.Gate.Go != nil
		switch {
		case declared && clean == nil:
			return nil, fmt.Errorf("%s declares kinds.%s.cleanup.go, and there is no cleanup beside the kind's handler: add one with handler.WithCleanup", config.File, k.Name)
		case clean != nil && !declared:
			return nil, fmt.Errorf("there is a cleanup beside the handler of kind %s, and %s does not declare it: add `cleanup: {go: {}}` there", k.Name, config.File)
		case declared:
			all = append(all, sweep.Cleanable{Kind: k.Name, Timeout: k.Gate.Timeout, Cleaner: sweep.NewFuncCleaner(cleanups, k.Name, k.Gate.Timeout,
				func(ctx context.Context, t machine.CleanupTask) error {
					return clean(ctx, handler.Ended{Kind: t.Kind, Key: t.Key, Subject: t.Subject, Period: t.Period, Generation: t.Generation, State: t.State})
				})})
		}
	}
	return all, nil
}

// addJanitor adds a janitor for the kinds to the service, if there are any.
func addJanitor(s *app.Service, watch sweep.Steady, kinds []sweep.Cleanable) error {
	if len(kinds) == 0 {
		return nil
	}
	janitor, err := newJanitor(s, watch, kinds)
	if err != nil {
		return err
	}
	s.Group.Add("cleanup", janitor.Run)
	return nil
}

// newJanitor makes a janitor; those of one process share their metrics.
func newJanitor(s *app.Service, watch sweep.Steady, kinds []sweep.Cleanable) (*sweep.Janitor, error) {
	return sweep.NewJanitor(sweep.JanitorOptions{Watch: watch, Kinds: kinds, Log: app.Component(s.Log, "cleanup"), Metrics: s.Registry})
}

// tellGateless logs which cleanups nobody does, since their gate was taken out of the
// configuration.
func tellGateless(ctx context.Context, s *app.Service, config *app.Config, ledger SchedulerLedger) error {
	gateless, err := ledger.GatelessCleanups(ctx, config.Kinds())
	for _, c := range gateless {
		app.Component(s.Log, "cleanup").WarnContext(ctx, "cleanups wait that nobody does", "kind", c.Kind, "cleanups", c.Count, "what", c.String())
	}
	return err
}
