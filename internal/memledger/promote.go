package memledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// freshMark is how long a mark may be on its way before it counts as standing.
const freshMark = 10 * time.Second

// Promote looks at the next due generations behind the position, at most limit, and
// promotes them. A retry waits while a mark stands on its lane, until one that was
// issued after its instant has passed.
func (l *Ledger) Promote(ctx context.Context, from machine.Position, limit int) (machine.Promotion, error) {
	p := machine.Promotion{Promoted: make(map[job.Waiting]int), Ended: make(machine.Tally), Next: from}
	err := l.write(ctx, "Promote", func(now time.Time) error {
		page := l.due(now, from, limit)
		p.More = len(page) == limit
		var targets []target
		for _, g := range page {
			at := g.row.PromoteAt()
			p.Next = machine.Position{At: at, Job: g.row.Job}
			if g.row.Waiting == job.WaitingRetry && l.waitsForMark(l.jobs[g.row.Job].spec.Kind, at, now) {
				continue
			}
			p.Delay = max(p.Delay, now.Sub(at))
			targets = append(targets, target{job: g.row.Job, generation: g.row.Generation, event: machine.Event{Name: machine.Due, Actor: "scheduler"}})
		}
		for _, d := range l.decide(now, targets...) {
			switch {
			case !d.applied():
			case d.row.State == job.Ready:
				p.Promoted[job.Waiting(d.change.Record.Why)]++
			default:
				p.Ended.Add(d.row)
			}
		}
		return nil
	})
	return p, err
}

// due lists what is due behind the position, in the order of promotion.
func (l *Ledger) due(now time.Time, from machine.Position, limit int) []*generation {
	order := func(at time.Time, id int64, than machine.Position) int {
		return cmp.Or(at.Compare(than.At), cmp.Compare(id, than.Job))
	}
	all := l.where(func(r machine.Row) bool {
		at := r.PromoteAt()
		return !at.IsZero() && !at.After(now) && order(at, r.Job, from) > 0
	})
	slices.SortFunc(all, func(a, b *generation) int {
		return order(a.row.PromoteAt(), a.row.Job, machine.Position{At: b.row.PromoteAt(), Job: b.row.Job})
	})
	return all[:min(limit, len(all))]
}

// waitsForMark reports whether a retry of the kind that would be promoted at the
// instant stands in its lane's queue before the newest mark that passed.
func (l *Ledger) waitsForMark(kind string, at, now time.Time) bool {
	t := l.topic(l.kinds[kind].Lane)
	var stands, behind bool
	for _, m := range t.marks {
		stands = stands || (m.Passed.IsZero() && m.Issued.Before(now.Add(-freshMark)))
		behind = behind || (!m.Passed.IsZero() && m.Issued.After(at))
	}
	return stands && !behind
}
