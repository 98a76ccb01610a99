package sweep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/pause"
)

// loop is one sweep: a round of bounded work, at once again while there is more, also
// where a part of it failed; else after every.
type loop struct {
	name  string
	every time.Duration
	round func(ctx context.Context) (more bool, err error)
	// lost is called when a round failed, or could not be made.
	lost func()
}

// roundBound is the longest that a round may take: a connection that answers no more
// must not stop a loop for good.
const roundBound = time.Minute

// runner runs loops.
type runner struct {
	watch    Steady
	log      *slog.Logger
	failures *prometheus.CounterVec // by loop
}

// Steady says whether what is seen of the ledger may be acted on.
type Steady interface {
	// Steady is false for a while after the ledger's clock has stepped.
	Steady(ctx context.Context) (bool, error)
}

// all runs the loops until ctx ends, and returns its error.
func (r *runner) all(ctx context.Context, loops []loop) error {
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { r.run(ctx, l) })
	}
	running.Wait()
	return ctx.Err()
}

// run makes rounds until ctx ends. What goes wrong is counted and tried again; of a
// series of failures ever fewer are logged.
func (r *runner) run(ctx context.Context, l loop) {
	var wait pause.Backoff
	failures := 0
	for ctx.Err() == nil {
		more, err := r.once(ctx, l)
		rest := l.every
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if rest = wait.Next(); more {
				rest = 0
			}
			failures++
			r.failures.WithLabelValues(l.name).Inc()
			if l.lost != nil {
				l.lost()
			}
			if failures&(failures-1) == 0 {
				r.log.WarnContext(ctx, "sweeping", "sweep", l.name, "error", err, "failures", failures, "next_in", rest)
			}
		case more:
			rest = 0
		}
		if err == nil {
			failures = 0
			wait.Reset()
		}
		pause.For(ctx, rest)
	}
}

func (r *runner) once(ctx context.Context, l loop) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundBound)
	defer cancel()
	steady, err := r.watch.Steady(ctx)
	if err != nil || !steady {
		return false, err
	}
	return l.round(ctx)
}
