package memledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Lease leases every reference of the request that can be leased.
// machine.ErrWorkerEnded: nothing was leased.
func (l *Ledger) Lease(ctx context.Context, req machine.LeaseRequest) (machine.Leases, error) {
	var leases machine.Leases
	refs := slices.Compact(slices.SortedFunc(slices.Values(req.Refs), job.Ref.Compare))
	err := l.write(ctx, "Lease", func(now time.Time) error {
		if !l.alive(req.Worker.ID) {
			return fmt.Errorf("leasing %d references: %w", len(refs), machine.ErrWorkerEnded)
		}
		leases = machine.Leases{Now: now}
		targets := make([]target, len(refs))
		for i, r := range refs {
			targets[i] = target{job: r.Job, generation: r.Generation, kind: &req.Kind, event: machine.Event{
				Name: machine.Lease, Emission: r.Emission, Worker: req.Worker.ID, Actor: "worker",
			}}
		}
		for i, d := range l.decide(now, targets...) {
			switch {
			case d.applied() && d.row.State == job.Leased:
				leases.Grants = append(leases.Grants, l.grant(d.row))
			case d.found && d.change.Refused == machine.Early:
				leases.Early = append(leases.Early, machine.EarlyRef{Ref: refs[i], In: d.row.WakeAt.Sub(now)})
			default:
				leases.Stale = append(leases.Stale, refs[i])
			}
		}
		return nil
	})
	if err != nil {
		return machine.Leases{}, err
	}
	return leases, nil
}

func (l *Ledger) grant(row machine.Row) machine.Grant {
	e, g := l.find(row.Job, row.Generation)
	return machine.Grant{
		Row: row, Key: e.spec.Key, Subject: e.spec.Subject, Period: e.spec.Period,
		Destination: g.destination, Payload: bytes.Clone(g.payload),
		DeadlineZone: g.deadlineZone, DeadlineLocal: g.deadlineLocal, TraceParent: e.spec.TraceParent,
		Bound: g.bound,
	}
}

// LeasedBy returns what the worker holds among the references: what a caller reads
// back when the reply to a lease was lost.
func (l *Ledger) LeasedBy(ctx context.Context, workerID string, refs []job.Ref) ([]machine.Grant, error) {
	var grants []machine.Grant
	err := l.read(ctx, "LeasedBy", func(time.Time) error {
		for _, r := range slices.SortedFunc(slices.Values(refs), job.Ref.Compare) {
			e, g := l.find(r.Job, r.Generation)
			if g != nil && g.row.State == job.Leased && g.row.Worker == workerID && g.row.Emission == r.Emission {
				grants = append(grants, l.grant(l.row(e, g)))
			}
		}
		return nil
	})
	return grants, err
}

// leased lists the generations that are leased, in the order of their jobs.
func (l *Ledger) leased() []*generation {
	return l.where(func(r machine.Row) bool { return r.State == job.Leased })
}

// where lists the current generations that a condition holds for, in the order of
// their jobs.
func (l *Ledger) where(holds func(machine.Row) bool) []*generation {
	var all []*generation
	for _, id := range l.order {
		e := l.jobs[id]
		if g := e.current(); holds(l.row(e, g)) {
			all = append(all, g)
		}
	}
	return all
}
