package memledger

import (
	"bytes"
	"context"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Enqueue accepts requests in one transaction and returns one Enqueued a request.
// Requests must have passed job.Spec.Validate. The same body is the same request,
// another one is a conflict.
func (l *Ledger) Enqueue(ctx context.Context, specs []job.Spec) ([]machine.Enqueued, error) {
	return l.enqueue(ctx, specs, false)
}

// Replace is Enqueue, but another body takes the place of the job's as long as no
// attempt has begun.
func (l *Ledger) Replace(ctx context.Context, specs []job.Spec) ([]machine.Enqueued, error) {
	return l.enqueue(ctx, specs, true)
}

func (l *Ledger) enqueue(ctx context.Context, specs []job.Spec, replace bool) ([]machine.Enqueued, error) {
	all := make([]machine.Enqueued, len(specs))
	err := l.write(ctx, "Enqueue", func(now time.Time) error {
		var announced []announcement
		for i, s := range specs {
			var more []announcement
			all[i], more = l.accept(s, replace, now)
			announced = append(announced, more...)
		}
		l.announce(announced)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (l *Ledger) accept(s job.Spec, replace bool, now time.Time) (machine.Enqueued, []announcement) {
	hash := job.KeyHash(s.Kind, s.Key)
	s.Due, s.Deadline = s.Due.Truncate(time.Microsecond), s.Deadline.Truncate(time.Microsecond) // as a ledger keeps them
	taken := l.keys[hash]
	if refusal := l.known(s.Kind); refusal != nil {
		return machine.Enqueued{Refused: refusal}, nil
	}
	if !s.Deadline.IsZero() && !s.Deadline.After(now) && (taken == nil || replace) {
		return machine.Enqueued{Refused: job.Refuse("deadline", s.Deadline.UTC().Format(time.RFC3339), job.RuleDeadlinePast, "")}, nil
	}
	switch {
	case taken == nil:
		l.jobID++
		l.keys[hash] = &key{body: s.BodyHash(), job: l.jobID}
		return machine.Enqueued{Job: l.jobID, Created: true}, l.begin(l.jobID, s, now)
	case taken.body == s.BodyHash():
		return machine.Enqueued{Job: taken.job, State: taken.state}, nil
	case replace && taken.state == "":
		return l.replace(taken, s, now)
	}
	return machine.Enqueued{Job: taken.job, State: taken.state, Refused: job.Refuse("key", s.Key, job.RuleConflict, "")}, nil
}

func (l *Ledger) begin(id int64, s job.Spec, now time.Time) []announcement {
	s.Payload = bytes.Clone(s.Payload)
	row, emissions := machine.Begin(l.kinds[s.Kind], s.Due, s.Deadline, now)
	row.Job = id
	e := &entry{spec: s}
	l.jobs[id] = e
	l.order = append(l.order, id)
	e.generations = append(e.generations, newGeneration(s, row))
	return announcements(row, emissions, s.TraceParent)
}

func newGeneration(s job.Spec, row machine.Row) *generation {
	row.Kind = machine.Kind{}
	return &generation{
		row: row, destination: s.Destination, payload: s.Payload,
		deadlineZone: s.DeadlineZone, deadlineLocal: s.DeadlineLocal,
	}
}

func announcements(row machine.Row, emissions []machine.Emission, trace string) []announcement {
	all := make([]announcement, len(emissions))
	for i, em := range emissions {
		all[i] = announcement{row, em, trace}
	}
	return all
}

func (l *Ledger) replace(taken *key, s job.Spec, now time.Time) (machine.Enqueued, []announcement) {
	e := l.jobs[taken.job]
	g := e.current()
	before := l.row(e, g)
	row, change := machine.Replace(before, s.Due, s.Deadline, now)
	if change.Refused != machine.Applied {
		return machine.Enqueued{Job: taken.job, Refused: job.Refuse("key", s.Key, job.RuleConflict, "an attempt has begun")}, nil
	}
	taken.body = s.BodyHash()
	s.Payload = bytes.Clone(s.Payload)
	e.spec = s
	*g = *newGeneration(s, row)
	l.record(now, row, change.Record, target{})
	l.tellOf(Decision{now, machine.Event{Name: machine.Replaced}, before, row, change})
	return machine.Enqueued{Job: taken.job, Replaced: true}, announcements(row, change.Emissions, s.TraceParent)
}
