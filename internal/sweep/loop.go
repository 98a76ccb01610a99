package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/pause"
)

// loop is one sweep: a round of bounded work, at once again while there is more, else
// after every.
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

// run makes rounds until ctx ends. What goes wrong is counted and tried again; of a
// series of failures ever fewer are logged.
func (s *Sweeper) run(ctx context.Context, l loop) {
	var wait pause.Backoff
	failures := 0
	for ctx.Err() == nil {
		more, err := s.once(ctx, l)
		rest := l.every
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			rest = wait.Next()
			failures++
			s.metrics.failures.WithLabelValues(l.name).Inc()
			if l.lost != nil {
				l.lost()
			}
			if failures&(failures-1) == 0 {
				s.log.WarnContext(ctx, "sweeping", "sweep", l.name, "error", err, "failures", failures, "next_in", rest)
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

func (s *Sweeper) once(ctx context.Context, l loop) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundBound)
	defer cancel()
	steady, err := s.options.Watch.Steady(ctx)
	if err != nil || !steady {
		return false, err
	}
	return l.round(ctx)
}
