package memledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Show returns everything that the ledger keeps about a job; job.ErrNotFound where
// there is none of this kind and key.
func (l *Ledger) Show(ctx context.Context, kind, name string) (machine.Story, error) {
	return l.story(ctx, "Show", kind, name, func(s *machine.Story, e *entry) {
		for _, g := range e.generations {
			s.Generations = append(s.Generations, l.generation(e, g))
		}
		for _, ev := range l.events {
			if ev.Job == s.Job {
				s.Events = append(s.Events, l.logged(ev, s.Kind.Policy))
			}
		}
		s.Redrives, s.Cleanup = slices.Clone(e.redrives), e.cleanup
		for _, a := range l.aside {
			if slices.ContainsFunc(a.Refs, func(r job.Ref) bool { return r.Job == s.Job }) {
				s.Unsendable = append(s.Unsendable, a.Unsendable)
			}
		}
	})
}

// Find returns a job's current generation, without what happened; job.ErrNotFound
// where there is none of this kind and key.
func (l *Ledger) Find(ctx context.Context, kind, name string) (machine.Story, error) {
	return l.story(ctx, "Find", kind, name, func(s *machine.Story, e *entry) {
		s.Generations = []machine.Generation{l.generation(e, e.current())}
	})
}

func (l *Ledger) story(ctx context.Context, method, kind, name string, fill func(*machine.Story, *entry)) (machine.Story, error) {
	var s machine.Story
	err := l.read(ctx, method, func(now time.Time) error {
		k := l.keys[job.KeyHash(kind, name)]
		if k == nil {
			return fmt.Errorf("%s/%s: %w", kind, name, job.ErrNotFound)
		}
		e := l.jobs[k.job]
		if e == nil {
			s = machine.Story{Now: now, Job: k.job, Kind: machine.Kind{Name: kind}, Key: name, Removed: true, LastState: k.state}
			return nil
		}
		s = machine.Story{Now: now, Job: k.job, Kind: l.kinds[kind], Key: name, Subject: e.spec.Subject, Period: e.spec.Period}
		fill(&s, e)
		return nil
	})
	return orZero(s, err)
}

func (l *Ledger) generation(e *entry, g *generation) machine.Generation {
	shown := machine.Generation{
		Row: l.row(e, g), Destination: g.destination, Payload: bytes.Clone(g.payload),
		DeadlineZone: g.deadlineZone, DeadlineLocal: g.deadlineLocal, Ended: g.ended, Receipt: g.receipt,
		Asking: g.asking, Bound: g.bound,
	}
	if g.row.Current() && (g.row.State == job.Quarantined || g.row.State == job.Unknown) {
		shown.Detail, shown.Fingerprint = g.detail, g.fingerprint
	}
	return shown
}

// logged is an event as a story tells it; a lease is told by its lease row.
func (l *Ledger) logged(e Event, p machine.Policy) machine.Logged {
	told := machine.Logged{At: e.At, Generation: e.Generation, Record: e.Record, Version: e.Version, Classifier: e.Classifier, Policy: e.Policy}
	if e.Name == machine.Lease && e.To == job.Leased {
		told.EndsAt = e.At.Add(p.Limit + p.LeaseTime)
		if w := l.workers[e.Worker]; w != nil {
			told.Version = w.Version
		}
		told.Record = machine.Record{Name: machine.Lease, To: job.Leased, Attempt: e.Attempt, Fence: e.Fence, Worker: e.Worker, Actor: e.Actor}
	}
	return told
}

// List lists jobs by their current generation, a page at a time, the newest first:
// what needs a person by when it came to that, everything else by its job.
func (l *Ledger) List(ctx context.Context, req machine.ListRequest) (machine.Listed, error) {
	if req.Limit <= 0 {
		req.Limit = machine.DefaultListLimit
	}
	var page machine.Listed
	err := l.read(ctx, "List", func(time.Time) error {
		if refusal := l.known(req.Kind); req.Kind != "" && refusal != nil {
			return refusal
		}
		needing := req.State == "" || req.State == job.Quarantined || req.State == job.Unknown
		if !needing && req.Reason != "" {
			return errors.New("listing jobs: only what is quarantined or unknown has a reason")
		}
		var all []machine.Entry
		for _, id := range l.order {
			if e, ok := l.entry(l.jobs[id], needing); ok && wanted(e, req, needing) {
				all = append(all, e)
			}
		}
		slices.SortFunc(all, func(a, b machine.Entry) int { return newestFirst(a, b, needing) })
		page.Looked = len(all)
		page.Entries = all[:min(req.Limit, len(all))]
		if n := len(page.Entries); n == req.Limit {
			page.Next = machine.ListPlace{At: page.Entries[n-1].At, Job: page.Entries[n-1].Job}
		}
		return nil
	})
	return page, err
}

// entry is the job's place in a list, if it has one.
func (l *Ledger) entry(e *entry, needing bool) (machine.Entry, bool) {
	g := e.current()
	r := l.row(e, g)
	shown := machine.Entry{
		Job: r.Job, Kind: e.spec.Kind, Key: e.spec.Key, Generation: r.Generation, State: r.State, Waiting: r.Waiting, Hold: r.Hold,
		Reason: r.Reason, Class: r.LastClass, Code: r.LastCode, Attempts: r.Attempt, Fence: r.Fence, At: r.Created, WakeAt: r.WakeAt,
		Cleaned: !e.cleanup.DoneAt.IsZero(),
	}
	if !needing {
		return shown, true
	}
	shown.At, shown.Detail, shown.Fingerprint, shown.Closed = g.ended, g.detail, g.fingerprint, r.Closed
	if r.State == job.Unknown {
		shown.ClosesAt = r.ClosesAt()
		shown.Ask(g.asking)
	}
	return shown, r.State == job.Quarantined || r.State == job.Unknown
}

// wanted reports whether the request asks for the entry, on this page or a later one.
func wanted(e machine.Entry, req machine.ListRequest, needing bool) bool {
	behind := req.After == (machine.ListPlace{}) || newestFirst(machine.Entry{At: req.After.At, Job: req.After.Job}, e, needing) < 0
	return behind &&
		(req.State == "" || e.State == req.State) && (req.Kind == "" || e.Kind == req.Kind) &&
		(req.Reason == "" || e.Reason == req.Reason) && (req.Code == "" || e.Code == req.Code) &&
		(req.Since.IsZero() || !e.At.Before(req.Since))
}

func newestFirst(a, b machine.Entry, needing bool) int {
	if needing {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Job, a.Job))
	}
	return cmp.Compare(b.Job, a.Job)
}
