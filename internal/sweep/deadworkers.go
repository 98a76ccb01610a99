package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// Workers is where the heartbeats of workers are seen.
type Workers interface {
	// Beats lists the workers that were not ended.
	Beats(ctx context.Context) ([]machine.Beat, error)
	// EndDead ends a worker's row for good, unless it was heard of since the count.
	EndDead(ctx context.Context, worker string, count int64) (bool, error)
}

// watcher looks for workers that have fallen silent. It concludes from silence, so it
// must have listened all the time: it counts from when it saw a count of heartbeats for
// the first time, by its own monotonic clock, and begins anew whenever it was away. No
// instant of the ledger or of a worker is compared.
type watcher struct {
	ledger  Workers
	contact contact.Contact
	now     func() contact.Instant
	seen    map[string]sighting
}

// sighting is a count of heartbeats and when its first reading had been answered.
type sighting struct {
	count int64
	first time.Duration
}

func (s *Sweeper) deadWorkers() loop {
	w := &watcher{
		ledger: s.options.Ledger, now: s.now,
		contact: contact.Contact{Gap: min(5*time.Second, s.options.LeaseTime/2)},
	}
	return loop{
		name: "dead workers", every: min(time.Second, s.options.LeaseTime/6), lost: w.contact.Lost,
		round: func(ctx context.Context) (bool, error) {
			dead, err := w.look(ctx)
			for _, b := range dead {
				s.metrics.workersEnded.Inc()
				s.log.WarnContext(ctx, "a worker was not heard of for its lease time and is ended", "worker", b.Worker, "label", b.Label, "version", b.Version)
			}
			if err == nil {
				s.options.Succeeded()
			}
			return false, err
		},
	}
}

// look reads the heartbeats and ends the workers whose count has not changed for their
// lease time. A reading shows what was so after it was sent, and before it was
// answered: so silence is counted from the answer of the first to the sending of the
// last.
func (w *watcher) look(ctx context.Context) (dead []machine.Beat, err error) {
	sent := w.now()
	beats, err := w.ledger.Beats(ctx)
	if err != nil {
		return nil, err
	}
	got := w.now()
	if w.contact.Seen(got) {
		w.seen = make(map[string]sighting)
	}
	seen := make(map[string]sighting, len(beats))
	for _, b := range beats {
		last, known := w.seen[b.Worker]
		if !known || last.count != b.Count {
			last = sighting{b.Count, got.Elapsed}
		}
		seen[b.Worker] = last
		if sent.Elapsed-last.first < b.LeaseTime {
			continue
		}
		ended, err := w.ledger.EndDead(ctx, b.Worker, b.Count)
		if err != nil {
			return dead, err
		}
		if ended {
			failpoint.Pass(failpoint.SweepEnded)
			dead = append(dead, b)
		}
	}
	w.seen = seen
	return dead, nil
}
