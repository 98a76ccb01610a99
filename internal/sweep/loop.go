package sweep

import (
	"context"
	"math/rand/v2"
	"time"
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
	failures := 0
	for ctx.Err() == nil {
		more, err := s.once(ctx, l)
		rest := l.every
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			rest = backoff(failures)
			failures++
			s.metrics.failures.WithLabelValues(l.name).Inc()
			if l.lost != nil {
				l.lost()
			}
			if failures&(failures-1) == 0 {
				s.log.WarnContext(ctx, "sweeping", "sweep", l.name, "error", err, "failures", failures, "next_in", rest)
			}
		case more:
			failures, rest = 0, 0
		default:
			failures = 0
		}
		pause(ctx, rest)
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

const (
	firstWait   = 50 * time.Millisecond
	longestWait = 5 * time.Second
)

// backoff is how long to wait after failures: 50 ms, doubling to 5 s, with jitter, so
// that sweeps that failed together do not come back together.
func backoff(failures int) time.Duration {
	wait := min(firstWait<<min(failures, 7), longestWait)
	return wait/2 + rand.N(wait/2)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
