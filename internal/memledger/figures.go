package memledger

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Now is the ledger's clock.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) {
	var at time.Time
	err := l.read(ctx, "Now", func(now time.Time) error { at = now; return nil })
	return at, err
}

// Figures measures the ledger as a whole, with counts that go no further than most.
func (l *Ledger) Figures(ctx context.Context, most int) (machine.Figures, error) {
	var f machine.Figures
	err := l.read(ctx, "Figures", func(now time.Time) error {
		for _, id := range l.order {
			if c, gate := l.jobs[id].cleanup, l.kinds[l.jobs[id].spec.Kind].Cleanup; !c.NextAt.IsZero() && gate == nil {
				f.CleanupsGateless = min(f.CleanupsGateless+1, most)
			}
			g := l.jobs[id].current()
			switch r := g.row; {
			case r.State == job.Unknown && !r.Closed:
				f.UnknownOpen = min(f.UnknownOpen+1, most)
				f.OldestUnknown = max(f.OldestUnknown, now.Sub(g.ended))
			case r.State == job.Quarantined:
				f.Quarantined = min(f.Quarantined+1, most)
				f.OldestQuarantined = max(f.OldestQuarantined, now.Sub(g.ended))
			case r.State == job.Leased:
				f.OldestLease = max(f.OldestLease, now.Sub(r.LeasedAt))
			case r.State == job.Scheduled:
				f.OldestDue = max(f.OldestDue, now.Sub(r.PromoteAt()))
			}
		}
		f.Workers = min(most, len(l.workersBy(func(w *worker) bool { return w.ended.IsZero() })))
		return nil
	})
	return f, err
}

// KeepPartitions drops events that are older than keep. There are no partitions to
// make, so that it counts none.
func (l *Ledger) KeepPartitions(ctx context.Context, keep time.Duration) (machine.Partitions, error) {
	return machine.Partitions{}, l.write(ctx, "KeepPartitions", func(now time.Time) error {
		l.events = slices.DeleteFunc(l.events, func(e Event) bool { return e.At.Before(now.Add(-keep)) })
		return nil
	})
}
