package sweep

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/contact"
)

// Ledger is what the loops together ask of the ledger.
type Ledger interface {
	Fleet
	Ends
	Hints
	Upkeep
}

// Fleet is where workers, and what they hold, are seen.
type Fleet interface {
	Workers
	Leases
	Overruns
}

// Ends is where generations are found whose time is over.
type Ends interface {
	Deadlines
	Unknown
	Patrol
}

// Hints is what lies between the ledger and the bus.
type Hints interface {
	Judge
	Outbox
	Restore
}

// Upkeep is what the ledger itself needs, and tells.
type Upkeep interface {
	Partitions
	Kinds
	Figures
}

// Watch says whether what is seen of the ledger may be acted on.
type Watch interface {
	Steady
	// Unbroken is for how long this process has been in contact with the ledger.
	Unbroken() time.Duration
}

// Options are what a Sweeper needs. Ledger and Watch are required.
type Options struct {
	Ledger Ledger
	Watch  Watch
	// LeaseTime is the shortest lease time of any worker. Default 30 s.
	LeaseTime time.Duration
	// Retention is how long jobs, and what happened to them, are kept after their end.
	// Default 30 d.
	Retention time.Duration
	// PatrolRows is how many rows the patrol looks at in a second. Default 2000.
	PatrolRows int
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
	// Succeeded is called after every look for dead workers that succeeded. Optional.
	Succeeded func()
}

// Sweeper runs the sweeps of a scheduler.
type Sweeper struct {
	runner

	options Options
	metrics *metrics
	now     func() contact.Instant
}

// New makes a Sweeper; the error is one of registering its metrics.
func New(o Options) (*Sweeper, error) {
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	o.LeaseTime = cmp.Or(o.LeaseTime, 30*time.Second)
	o.Retention = cmp.Or(o.Retention, 30*24*time.Hour)
	o.PatrolRows = cmp.Or(o.PatrolRows, 2000)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Succeeded == nil {
		o.Succeeded = func() {}
	}
	return &Sweeper{runner: runner{o.Watch, o.Log, m.failures}, options: o, metrics: m, now: contact.Now}, nil
}

// Run runs every loop until ctx ends, and returns its error.
func (s *Sweeper) Run(ctx context.Context) error { return s.all(ctx, s.loops()) }

func (s *Sweeper) loops() []loop {
	return []loop{
		s.deadWorkers(), s.endedWorkers(), s.overruns(), s.expiry(), s.closing(), s.judge(),
		s.outbox(), s.restore(), s.patrol(), s.partitions(), s.kinds(), s.figures(),
	}
}
