package memledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// recovery names a person's decision.
type recovery struct {
	job  int64
	hash job.Hash
}

// redriven is a person's decision as it is kept.
type redriven struct {
	machine.RedriveNote
	request job.Hash
}

// Cancel withdraws a job. What waits is cancelled at once; what is leased or unknown
// keeps the request. Cancelling again changes nothing. job.ErrNotFound, and a
// *machine.Denied for what is delivered.
func (l *Ledger) Cancel(ctx context.Context, c machine.Cancellation) (machine.Standing, error) {
	var standing machine.Standing
	err := l.write(ctx, "Cancel", func(now time.Time) error {
		ev := c.Event()
		d, err := l.act(now, c.Kind, c.Key, ev)
		var gone *machine.Denied
		if errors.As(err, &gone) && gone.State == job.Cancelled {
			standing = machine.Standing{State: job.Cancelled, Again: true}
			return nil
		}
		if err != nil {
			return err
		}
		standing = machine.StandingOf(d.row)
		if standing.Again = d.row.State == job.Cancelled && !d.applied(); standing.Again || d.applied() {
			return nil
		}
		return machine.Deny(c.Kind, c.Key, d.row, ev, d.change.Refused)
	})
	return orZero(standing, err)
}

// Resolve applies a person's answer to the current generation of a job.
// job.ErrNotFound, and a *machine.Denied that says what is in the way.
func (l *Ledger) Resolve(ctx context.Context, a machine.Answer) (machine.Standing, error) {
	var standing machine.Standing
	err := l.write(ctx, "Resolve", func(now time.Time) error {
		ev := a.Event()
		d, err := l.act(now, a.Kind, a.Key, ev)
		if err != nil {
			return err
		}
		standing = machine.StandingOf(d.row)
		switch {
		case d.applied():
			return nil
		case a.Verdict == machine.VerdictGiveUp && d.row.Closed && d.row.Fence == a.Fence:
			standing.Again = true
			return nil
		}
		return machine.Deny(a.Kind, a.Key, d.row, ev, d.change.Refused)
	})
	return orZero(standing, err)
}

func orZero[T any](v T, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// act applies an event to the current generation of a job. A refusal is no error here.
func (l *Ledger) act(now time.Time, kind, name string, ev machine.Event) (decided, error) {
	k := l.keys[job.KeyHash(kind, name)]
	if k == nil {
		return decided{}, fmt.Errorf("%s/%s: %w", kind, name, job.ErrNotFound)
	}
	if k.state != "" {
		return decided{}, &machine.Denied{Why: machine.Removed, Act: ev.Name, Kind: kind, Key: name, State: k.state}
	}
	r := l.jobs[k.job].current().row
	return l.decide(now, target{job: r.Job, generation: r.Generation, event: ev})[0], nil
}

// Redrive opens the next generation of a job, as a person decided. A recovery key
// that was used before is answered with the generation that it made.
// job.ErrNotFound, and a *machine.Denied that says what is in the way. Every caller
// has every role here.
func (l *Ledger) Redrive(ctx context.Context, req machine.RedriveRequest) (machine.Successor, error) {
	req.Deadline, req.NotBefore = req.Deadline.Truncate(time.Microsecond), req.NotBefore.Truncate(time.Microsecond)
	var made machine.Successor
	err := l.write(ctx, "Redrive", func(now time.Time) (err error) {
		k := l.keys[job.KeyHash(req.Kind, req.Key)]
		if k == nil {
			return fmt.Errorf("redriving %s/%s: %w", req.Kind, req.Key, job.ErrNotFound)
		}
		made, err = l.redrive(now, k, req)
		return err
	})
	return orZero(made, err)
}

func (l *Ledger) redrive(now time.Time, k *key, req machine.RedriveRequest) (machine.Successor, error) {
	id := k.job
	denied := &machine.Denied{Why: machine.Superseded, Act: machine.Redriven, Kind: req.Kind, Key: req.Key}
	if before := l.redrives[recovery{id, req.RecoveryHash()}]; before != nil {
		if before.request != req.Hash() {
			denied.Why, denied.Successor = machine.KeyReused, before.Successor
			return machine.Successor{}, denied
		}
		made := machine.Successor{Job: id, Generation: before.Successor, State: k.state, Again: true}
		if _, g := l.find(id, before.Successor); g != nil {
			made.State, made.Starts = g.row.State, g.row.WakeAt
		}
		return made, nil
	}
	if k.state != "" {
		denied.Why, denied.State = machine.Removed, k.state
		return machine.Successor{}, denied
	}
	e, g := l.find(id, req.Generation)
	if g == nil {
		denied.Generation = l.jobs[id].current().row.Generation
		return machine.Successor{}, denied
	}
	row, ev := l.row(e, g), req.Event()
	pred, succ, change := machine.Redrive(row, ev, req.Correction, now)
	switch change.Refused {
	case machine.Applied:
	case machine.Irrelevant:
		return machine.Successor{}, machine.DenyIrrelevant(req.Kind, req.Key, row, ev, req.Correction)
	default:
		return machine.Successor{}, machine.Deny(req.Kind, req.Key, row, ev, change.Refused)
	}
	succ.Pinned = req.Pins(row)
	if e.cleanup.Begun() && !req.Forced {
		d := machine.Deny(req.Kind, req.Key, row, ev, machine.CleanedUp)
		d.Since = e.cleanup.DoneAt
		return machine.Successor{}, d
	}
	l.store(g, pred, change, now)
	l.record(now, pred, change.Record, target{})
	l.tellOf(Decision{now, ev, row, pred, change})
	e.generations = append(e.generations, corrected(g, succ, req))
	l.announce(announcements(succ, change.Emissions, e.spec.TraceParent))
	note := machine.RedriveNote{
		At: now, RecoveryKey: req.RecoveryKey, Approver: req.Approver, Actor: req.Actor, Reason: req.Reason,
		Predecessor: row.Generation, Successor: succ.Generation, Forced: req.Forced, Evidence: req.Evidence,
	}
	l.redrives[recovery{id, req.RecoveryHash()}] = &redriven{note, req.Hash()}
	e.redrives = append(e.redrives, note)
	return machine.Successor{Job: id, Generation: succ.Generation, State: succ.State, Starts: succ.WakeAt}, nil
}

// corrected is the successor with the body of its predecessor, as the redrive corrects it.
func corrected(pred *generation, succ machine.Row, req machine.RedriveRequest) *generation {
	succ.Kind = machine.Kind{}
	g := &generation{
		row: succ, destination: pred.destination, payload: pred.payload,
		deadlineZone: pred.deadlineZone, deadlineLocal: pred.deadlineLocal,
	}
	if req.Destination != "" {
		g.destination = req.Destination
	}
	if len(req.Payload) > 0 {
		g.payload = bytes.Clone(req.Payload)
	}
	if !req.Deadline.IsZero() {
		g.deadlineZone, g.deadlineLocal = req.DeadlineZone, req.DeadlineLocal
	}
	return g
}
