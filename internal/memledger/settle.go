package memledger

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Settle commits the ends of attempts and returns one Settled a report, in their
// order. A report that was settled already is answered with where its generation
// stands; a late one is kept as evidence.
func (l *Ledger) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	all := make([]machine.Settled, len(reports))
	err := l.write(ctx, "Settle", func(now time.Time) error {
		targets := make([]target, len(reports))
		for i, r := range reports {
			targets[i] = target{
				job: r.Job, generation: r.Generation, version: w.Version, classifier: r.Classifier,
				kind: r.Kind, event: r.Event(w),
			}
		}
		for i, d := range l.decide(now, targets...) {
			all[i] = reports[i].Settled(d.row, d.change)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// HoldRefs puts what is ready at its reference's emission back to scheduled (held)
// for the given time: no fence, no attempt. What is not ready at that emission is
// left: its reference is stale. What has expired is ended. No row is ever locked here.
func (l *Ledger) HoldRefs(ctx context.Context, refs []job.Ref, hold job.Hold, d time.Duration) (locked []job.Ref, err error) {
	return nil, l.write(ctx, "HoldRefs", func(now time.Time) error {
		var targets []target
		distinct := slices.Compact(slices.SortedFunc(slices.Values(refs), job.Ref.Compare))
		for _, r := range distinct {
			e, g := l.find(r.Job, r.Generation)
			if g == nil {
				continue
			}
			t := target{job: r.Job, generation: r.Generation, event: machine.Event{Name: machine.Expire, Actor: "worker"}}
			if row := l.row(e, g); row.State == job.Ready && row.Emission == r.Emission && row.Expired(now) == "" {
				t.event = machine.Event{Name: machine.Hold, Emission: r.Emission, Hold: hold, Until: now.Add(d), Actor: "worker"}
			}
			targets = append(targets, t)
		}
		l.decide(now, targets...)
		return nil
	})
}
