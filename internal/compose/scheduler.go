package compose

import (
	"context"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
)

// staleScheduler is how old the last successful promotion, and the last look for dead
// workers, may be before the process counts as not ready.
const staleScheduler = 15 * time.Second

// SchedulerConns are the connections to the ledger that a scheduler needs: one for each
// of its loops, of which those that ask share what is left over, and some for what a loop
// asks in the middle of a transaction.
const SchedulerConns = 16

// SchedulerLedger is the ledger as the scheduler knows it.
type SchedulerLedger interface {
	schedule.Ledger
	sweep.Ledger
	sweep.Questions
	contact.Ledger
	Inquirer
	CleanerOpener
	RunLedger
	// SyncKinds writes the configuration's kinds into the ledger.
	SyncKinds(ctx context.Context, kinds []machine.Kind) error
	// GatelessCleanups are cleanups that nobody does under these kinds.
	GatelessCleanups(ctx context.Context, kinds []machine.Kind) ([]machine.WaitingCleanups, error)
}

// Scheduler adds a scheduler to the service: promotion, every sweep, the asking of
// receivers by HTTP and SQL, cleanups and runs. The configuration's kinds are in the ledger
// when it returns, and the ledger's cursors are this cluster's. What one kind or schedule
// needs besides, a database or a table of the user's own, is opened in a loop beside the
// others: where it is away, or refuses, that kind waits and nothing else does.
func Scheduler(ctx context.Context, s *app.Service, config *app.Config, ledger SchedulerLedger) error {
	err := app.Retry(ctx, s.Log, "writing the kinds of the configuration into the ledger", func(ctx context.Context) error {
		if _, err := ledger.CheckRestored(ctx); err != nil {
			return err
		}
		return ledger.SyncKinds(ctx, config.Kinds())
	})
	if err != nil {
		return err
	}
	watch, err := contact.New(contact.Options{
		Ledger: ledger, Hold: config.Worker.LeaseTime, Log: app.Component(s.Log, "clock"), Metrics: s.Registry,
	})
	if err != nil {
		return err
	}
	promotion, err := schedule.New(schedule.Options{
		Ledger: ledger, Watch: watch, Log: app.Component(s.Log, "schedule"), Metrics: s.Registry,
		Succeeded: s.Readiness.Loop("promotion", staleScheduler),
	})
	if err != nil {
		return err
	}
	sweeper, err := sweep.New(sweep.Options{
		Ledger: ledger, Watch: watch, LeaseTime: config.Worker.LeaseTime, Retention: config.Retention,
		Log: app.Component(s.Log, "sweep"), Metrics: s.Registry,
		Succeeded: s.Readiness.Loop("dead workers", staleScheduler),
	})
	if err != nil {
		return err
	}
	s.Group.Add("promotion", promotion.Run)
	s.Group.Add("sweeps", sweeper.Run)
	if err := addLookups(s, config, ledger, watch); err != nil {
		return err
	}
	addCleanups(s, config, ledger, watch)
	if err := tellGateless(ctx, s, config, ledger); err != nil {
		return err
	}
	return addRuns(ctx, s, config, ledger, watch)
}
