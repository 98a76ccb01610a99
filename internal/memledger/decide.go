package memledger

import (
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Event is one record of what happened.
type Event struct {
	ID         int64
	At         time.Time
	Job        int64
	Generation int32
	machine.Record
	// Version is the worker's, Classifier that of the rules, Policy the kind's hash.
	Version, Classifier, Policy string
}

// target is an event for one generation.
type target struct {
	job        int64
	generation int32
	event      machine.Event
	// kind is the policy that the event's author decided under; nil: the one in force.
	kind                *machine.Kind
	version, classifier string
}

// decided is what became of a target. found is false where there is no such row.
type decided struct {
	found  bool
	row    machine.Row
	change machine.Change
}

func (d decided) applied() bool { return d.found && d.change.Refused == machine.Applied }

// decide asks the machine about every target in turn and stores what it says; what
// is to be announced is announced together.
func (l *Ledger) decide(now time.Time, targets ...target) []decided {
	all := make([]decided, len(targets))
	var announced []announcement
	for i, t := range targets {
		e, g := l.find(t.job, t.generation)
		if g == nil || (t.kind != nil && t.kind.Name != e.spec.Kind) {
			continue // a policy of one kind never decides about a job of another
		}
		before := l.row(e, g)
		if t.kind != nil {
			before.Kind = *t.kind
		}
		row, change := machine.Next(before, t.event, now)
		all[i] = decided{true, row, change}
		if change.Refused != machine.Applied {
			continue
		}
		l.store(g, row, change, now)
		l.record(now, row, change.Record, t)
		l.tellOf(Decision{now, t.event, before, row, change})
		for _, em := range change.Emissions {
			announced = append(announced, announcement{row, em, e.spec.TraceParent})
		}
	}
	l.announce(announced)
	return all
}

// store keeps a decided row, and what belongs to the place that it came to.
func (l *Ledger) store(g *generation, row machine.Row, change machine.Change, now time.Time) {
	if r := change.Record; r != nil && r.To != r.From {
		l.arrive(g, row, r, now)
	}
	switch {
	case row.State != job.Unknown || !row.Current():
		g.asking = machine.Asking{}
	case g.row.State != job.Unknown:
		g.asking = row.BeginAsking(now)
	case row.Closed:
		g.asking.NextAt = time.Time{}
	}
	if row.State == job.Leased && g.row.State != job.Leased && row.Attempt == 1 {
		g.first = row.LeasedAt
	}
	l.jobs[row.Job].gate(g.row, row, g.receipt != nil, now)
	row.Kind = machine.Kind{}
	g.row = row
}

// arrive notes when and how a generation came to another state.
func (l *Ledger) arrive(g *generation, row machine.Row, r *machine.Record, now time.Time) {
	g.ended, g.detail, g.fingerprint = time.Time{}, "", ""
	if row.State.Pending() {
		return
	}
	g.ended, g.detail = now, r.Detail
	g.fingerprint = job.Fingerprint(row.Kind.Name, row.LastClass, row.LastCode, r.Detail)
	if row.State == job.Delivered {
		g.receipt = r.Receipt
	}
}

// record appends an event.
func (l *Ledger) record(now time.Time, row machine.Row, r *machine.Record, t target) {
	if r == nil {
		return
	}
	l.eventID++
	l.events = append(l.events, Event{
		ID: l.eventID, At: now, Job: row.Job, Generation: row.Generation, Record: *r,
		Version: t.version, Classifier: t.classifier, Policy: row.Kind.Hash(),
	})
}

// announcement is an emission of a row.
type announcement struct {
	row machine.Row
	machine.Emission
	trace string
}

// announce writes the outbox rows of one transaction: one a kind for what may go
// now, one each for what is delayed and for notices.
func (l *Ledger) announce(all []announcement) {
	together := make(map[string]*outboxRow)
	for _, a := range all {
		ref := job.Ref{Job: a.row.Job, Generation: a.row.Generation, Emission: a.Number}
		name := a.row.Kind.Lane
		if a.Dead {
			name = machine.DeadTopic
		}
		if !a.Dead && a.At.IsZero() {
			if o := together[a.row.Kind.Name]; o != nil {
				o.Refs = append(o.Refs, ref)
				continue
			}
		}
		o := l.emit(name, machine.OutboxRow{Kind: a.row.Kind.Name, Refs: []job.Ref{ref}, At: a.At, TraceParent: a.trace})
		if !a.Dead && a.At.IsZero() {
			together[a.row.Kind.Name] = o
		}
	}
}

// emit appends a row to the outbox of the topic.
func (l *Ledger) emit(name string, row machine.OutboxRow) *outboxRow {
	l.outboxID++
	row.ID = l.outboxID
	o := &outboxRow{row}
	t := l.topic(name)
	t.rows = append(t.rows, o)
	return o
}
