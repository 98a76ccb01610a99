package schedule

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// Ledger is what promotion asks of the ledger.
type Ledger interface {
	// Promote looks at the next due generations behind the position, at most limit, and
	// promotes them.
	Promote(ctx context.Context, from machine.Position, limit int) (machine.Promotion, error)
}

// Watch says whether the ledger's instants may be acted on.
type Watch interface {
	// Steady is false for a while after the ledger's clock has stepped.
	Steady(ctx context.Context) (bool, error)
}

// Options are what a Promotion needs. Ledger and Watch are required.
type Options struct {
	Ledger Ledger
	Watch  Watch
	// Batch is the most generations of one transaction. Default 500.
	Batch int
	// Rest is the pause between two looks when nothing is due: how late a promotion may
	// be on an idle ledger. Default 100 ms.
	Rest time.Duration
	// Front is how often a look begins at the front. Default 1 s.
	Front time.Duration
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
	// Succeeded is called after every look that succeeded. Optional.
	Succeeded func()
}

// Promotion is the loop that promotes what is due.
type Promotion struct {
	options Options
	metrics *metrics
	walk    walk
}

// New makes a Promotion; the error is one of registering its metrics.
func New(o Options) (*Promotion, error) {
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	o.Batch = cmp.Or(o.Batch, 500)
	o.Rest = cmp.Or(o.Rest, 100*time.Millisecond)
	o.Front = cmp.Or(o.Front, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Succeeded == nil {
		o.Succeeded = func() {}
	}
	return &Promotion{options: o, metrics: m, walk: walk{every: o.Front}}, nil
}

// Run promotes until ctx ends and returns its error. What goes wrong meanwhile is
// logged, counted and tried again.
func (p *Promotion) Run(ctx context.Context) error {
	var wait pause.Backoff
	for ctx.Err() == nil {
		rest, err := p.look(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			rest = wait.Next()
			p.metrics.failures.Inc()
			p.options.Log.WarnContext(ctx, "promoting", "error", err, "next_in", rest)
		default:
			wait.Reset()
		}
		pause.For(ctx, rest)
	}
	return ctx.Err()
}

// look promotes one batch and says how long to rest.
func (p *Promotion) look(ctx context.Context) (time.Duration, error) {
	steady, err := p.options.Watch.Steady(ctx)
	if err != nil || !steady {
		return p.options.Front, err
	}
	from := p.walk.next(time.Now())
	done, err := p.options.Ledger.Promote(ctx, from, p.options.Batch)
	if err != nil {
		return 0, err
	}
	p.metrics.count(done)
	if n := done.Promoted[job.WaitingRetry]; n > 0 {
		p.options.Log.WarnContext(ctx, "the bus lost delayed emissions; the scheduler made these retries ready", "retries", n)
	}
	p.options.Succeeded()
	if p.walk.went(done) {
		return 0, nil
	}
	return p.options.Rest, nil
}

// walk is where the loop stands in the order of promotion.
type walk struct {
	every   time.Duration
	place   machine.Position
	end     bool      // nothing was behind the place
	front   time.Time // when a look last began at the front
	aside   bool      // the look under way is one at the front in the middle of a walk
	started bool
}

// next is where the next look begins: behind the last, or at the front. A walk that has
// come to its end begins anew there; one that has not is not sent back by it, so that
// what must wait at the front never keeps it from what is behind.
func (w *walk) next(now time.Time) machine.Position {
	w.aside = false
	if w.started && now.Sub(w.front) < w.every {
		return w.place
	}
	w.started, w.front = true, now
	w.aside = !w.end && w.place != machine.Position{}
	return machine.Position{}
}

// went notes what became of the look, and reports whether there is more to do now.
func (w *walk) went(p machine.Promotion) (more bool) {
	if w.aside {
		return true
	}
	if w.end = !p.More; p.Next != (machine.Position{}) {
		w.place = p.Next // nothing was due from the front: go on where the walk has ended
	}
	return p.More
}
