package contact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Ledger is what tells its time.
type Ledger interface {
	// Now is the ledger's clock.
	Now(ctx context.Context) (time.Time, error)
}

// Options are what a Watch needs. Ledger is required.
type Options struct {
	Ledger Ledger
	// Hold is how long nothing is done after a step of the ledger's clock: one lease
	// time. Default 30 s.
	Hold time.Duration
	// Gap is the longest time between two readings that does not break the contact.
	// Default 5 s.
	Gap time.Duration
	// Fresh is for how long one reading answers all loops, so that an idle process does
	// not ask for the time before each of its looks. It adds to how long a step may go
	// unseen, which a look that has just asked cannot bring to nothing either. Default
	// 250 ms.
	Fresh time.Duration
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
}

// Watch is what the loops of one process ask before each round. It is safe for
// concurrent use.
type Watch struct {
	options Options
	contact Contact
	now     func() Instant
	steps   prometheus.Counter
	held    prometheus.Gauge

	mu      sync.Mutex
	clock   Clock
	read    *Instant // when the clock was last read; nil after a failure
	stepped bool
	until   time.Duration // monotonic; nothing is done before, once it has stepped
}

// New makes a Watch; the error is one of registering its metrics.
func New(o Options) (*Watch, error) {
	o.Hold, o.Gap, o.Fresh = cmp.Or(o.Hold, 30*time.Second), cmp.Or(o.Gap, 5*time.Second), cmp.Or(o.Fresh, 250*time.Millisecond)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	w := &Watch{
		options: o, contact: Contact{Gap: o.Gap}, now: Now,
		steps: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "duly", Name: "ledger_clock_steps_total",
			Help: "Steps of the ledger's clock by more than 2 s against this process's monotonic clock.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "duly", Name: "ledger_clock_held",
			Help: "1 while promotion and sweeps rest for one lease time after a step of the ledger's clock.",
		}),
	}
	if o.Metrics == nil {
		return w, nil
	}
	if err := errors.Join(o.Metrics.Register(w.steps), o.Metrics.Register(w.held)); err != nil {
		return nil, fmt.Errorf("registering the clock's metrics: %w", err)
	}
	return w, nil
}

// Steady reads the ledger's clock, unless that was done just now, and reports whether its
// instants may be acted on. It is false for one lease time after every step. The error is
// that of the reading.
func (w *Watch) Steady(ctx context.Context) (bool, error) {
	sent := w.now()
	if steady, known := w.fresh(sent); known {
		return steady, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.options.Gap)
	defer cancel()
	ledger, err := w.options.Ledger.Now(ctx)
	got := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.contact.Lost()
		w.read = nil
		return false, err
	}
	w.contact.Seen(got)
	w.read = &sent
	if step := w.clock.Observe(sent, got, ledger); step != 0 {
		w.stepped, w.until = true, got.Elapsed+w.options.Hold
		w.steps.Inc()
		w.options.Log.ErrorContext(ctx, "the ledger's clock has stepped: promotion and sweeps rest", "step", step, "for", w.options.Hold)
	}
	return w.steady(got), nil
}

// fresh answers from the last reading while that is fresh, by both of the process's
// clocks: one that was suspended in between reads again.
func (w *Watch) fresh(now Instant) (steady, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read == nil || now.since(*w.read) >= w.options.Fresh {
		return false, false
	}
	return w.steady(now), true
}

// steady is false while the process holds after a step.
func (w *Watch) steady(now Instant) bool {
	w.stepped = w.stepped && now.Elapsed < w.until
	if w.stepped {
		w.held.Set(1)
	} else {
		w.held.Set(0)
	}
	return !w.stepped
}

// Unbroken is for how long the process has been in unbroken contact with the ledger.
func (w *Watch) Unbroken() time.Duration { return w.contact.Unbroken(w.now()) }
