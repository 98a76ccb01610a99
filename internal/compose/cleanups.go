package compose

import (
	"context"
	"errors"
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

// schedulerCleanups are the kinds that a scheduler cleans up behind, by statements. While
// the ledger does not answer it tries again and says so; a statement that cannot work is
// an error.
func schedulerCleanups(ctx context.Context, s *app.Service, config *app.Config, own CleanerOpener) ([]sweep.Cleanable, error) {
	var all []sweep.Cleanable
	for _, kind := range config.Kinds() {
		k, _ := config.Kind(kind.Name)
		if k.Gate == nil || k.Gate.Go != nil {
			continue
		}
		var opened *ledger.Cleaner
		err := app.Retry(ctx, s.Log, "the ledger, for the cleanup of kind "+k.Name, func(ctx context.Context) (err error) {
			opened, err = own.OpenCleaner(ctx, ledger.CleanerOptions{Kind: k.Name, Statement: k.Gate.Statement, Timeout: k.Gate.Timeout})
			if errors.Is(err, ledger.ErrCleanup) {
				return app.Permanent(app.Exit(app.ExitUsage, fmt.Errorf("cleanup.statement of kind %s: %w", k.Name, err)))
			}
			return refused(err)
		})
		if err != nil {
			return nil, err
		}
		s.Stack.Push("cleanup of kind "+k.Name, closeBound, func(context.Context) error { opened.Close(); return nil })
		all = append(all, sweep.Cleanable{Kind: k.Name, Cleaner: opened, Timeout: k.Gate.Timeout})
	}
	return all, nil
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
	janitor, err := sweep.NewJanitor(sweep.JanitorOptions{Watch: watch, Kinds: kinds, Log: app.Component(s.Log, "cleanup"), Metrics: s.Registry})
	if err != nil {
		return err
	}
	s.Group.Add("cleanup", janitor.Run)
	return nil
}
