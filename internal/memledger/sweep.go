package memledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// overdue is how long a lease must be over until it is ended, so that what its worker
// reports in time is never crossed by the sweep.
const overdue = 5 * time.Second

// Beats lists the workers that were not ended, with their counts of heartbeats.
func (l *Ledger) Beats(ctx context.Context) ([]machine.Beat, error) {
	var beats []machine.Beat
	err := l.read(ctx, "Beats", func(time.Time) error {
		for _, w := range l.workersBy(func(w *worker) bool { return w.ended.IsZero() }) {
			beats = append(beats, machine.Beat{Worker: w.ID, Label: w.Label, Version: w.Version, Count: w.beats, LeaseTime: w.LeaseTime})
		}
		return nil
	})
	return beats, err
}

// workersBy lists the workers that a condition holds for, the first to end first.
func (l *Ledger) workersBy(holds func(*worker) bool) []*worker {
	var all []*worker
	for _, w := range l.workers {
		if holds(w) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *worker) int { return cmp.Or(a.ended.Compare(b.ended), cmp.Compare(a.ID, b.ID)) })
	return all
}

// EndDead ends the row of a worker for good, unless it was heard of since: count is the
// count of heartbeats that was seen last. It reports whether it ended the row.
func (l *Ledger) EndDead(ctx context.Context, id string, count int64) (bool, error) {
	var ended bool
	err := l.write(ctx, "EndDead", func(now time.Time) error {
		if ended = l.alive(id) && l.workers[id].beats == count; ended {
			l.workers[id].ended = now
		}
		return nil
	})
	return ended && err == nil, err
}

// Undrained lists the workers whose rows have ended and that Drained was not called
// for.
func (l *Ledger) Undrained(ctx context.Context) ([]string, error) {
	var ids []string
	err := l.read(ctx, "Undrained", func(time.Time) error {
		for _, w := range l.workersBy(func(w *worker) bool { return !w.ended.IsZero() && w.drained.IsZero() }) {
			ids = append(ids, w.ID)
		}
		return nil
	})
	return ids, err
}

// Drained notes that no lease of the ended worker was left.
func (l *Ledger) Drained(ctx context.Context, id string) error {
	return l.write(ctx, "Drained", func(now time.Time) error {
		if w := l.workers[id]; w != nil && !w.ended.IsZero() && w.drained.IsZero() {
			w.drained = now
		}
		return nil
	})
}

// RemoveWorkers removes the rows of workers that have held nothing for so long, and
// returns how many.
func (l *Ledger) RemoveWorkers(ctx context.Context, after time.Duration) (int, error) {
	var n int
	err := l.write(ctx, "RemoveWorkers", func(now time.Time) error {
		for _, w := range l.workersBy(func(w *worker) bool { return !w.drained.IsZero() && w.drained.Before(now.Add(-after)) }) {
			delete(l.workers, w.ID)
			n++
		}
		return nil
	})
	return n, err
}

// lateCommit is how late a lease may be committed, behind the instant that it says,
// to be found by its worker all the same.
const lateCommit = 10 * time.Second

// EndLeasesOf ends the next leases of an ended worker, at most limit, that began
// behind the instant (zero: from the beginning). What had overrun when the worker
// ended is EndOverrun's to end.
func (l *Ledger) EndLeasesOf(ctx context.Context, id string, from time.Time, limit int) (machine.LeaseSweep, error) {
	s := machine.LeaseSweep{Ended: make(machine.Tally), Next: from}
	err := l.write(ctx, "EndLeasesOf", func(now time.Time) error {
		w := l.workers[id]
		if w == nil || w.ended.IsZero() {
			return nil
		}
		if from.IsZero() {
			from = w.ended.Add(-l.longestLease() - lateCommit)
		}
		l.endLeases(now, limit, "its worker was ended", &s, func(r machine.Row) bool { return r.Worker == id && r.LeasedAt.After(from) })
		return nil
	})
	return s, err
}

// longestLease is the longest that a lease of any kind may run.
func (l *Ledger) longestLease() time.Duration {
	var limit, lease time.Duration
	for _, k := range l.kinds {
		limit, lease = max(limit, k.Policy.Limit), max(lease, k.Policy.LeaseTime)
	}
	return limit + lease
}

// EndOverrun ends the next leases, at most limit, whose limit and lease time are over.
func (l *Ledger) EndOverrun(ctx context.Context, limit int) (machine.LeaseSweep, error) {
	s := machine.LeaseSweep{Ended: make(machine.Tally)}
	err := l.write(ctx, "EndOverrun", func(now time.Time) error {
		l.endLeases(now, limit, "its limit and lease time were over", &s, func(r machine.Row) bool {
			return !now.Before(r.LeasedAt.Add(r.Limit + r.Kind.Policy.LeaseTime + overdue))
		})
		return nil
	})
	return s, err
}

// endLeases ends the first leases that a condition holds for.
func (l *Ledger) endLeases(now time.Time, limit int, why string, s *machine.LeaseSweep, over func(machine.Row) bool) {
	all := l.where(func(r machine.Row) bool { return r.State == job.Leased && over(r) })
	slices.SortStableFunc(all, func(a, b *generation) int { return a.row.LeasedAt.Compare(b.row.LeasedAt) })
	if s.More = len(all) > limit; s.More {
		all = all[:limit]
	}
	targets := make([]target, len(all))
	for i, g := range all {
		s.Next = g.row.LeasedAt
		targets[i] = target{job: g.row.Job, generation: g.row.Generation, event: machine.Event{
			Name: machine.LeaseEnded, Fence: g.row.Fence, Detail: why, Actor: "scheduler",
		}}
	}
	for _, d := range l.decide(now, targets...) {
		if d.applied() {
			s.Ended.Add(d.row)
		}
	}
}

// Expire ends the next generations whose deadline, age or lifetime is over, at most
// limit, and reports whether there is more.
func (l *Ledger) Expire(ctx context.Context, limit int) (ended machine.Tally, more bool, err error) {
	ended = make(machine.Tally)
	err = l.write(ctx, "Expire", func(now time.Time) error {
		all := l.where(func(r machine.Row) bool {
			return (r.State == job.Scheduled || r.State == job.Ready) && r.Expired(now) != ""
		})
		more = len(all) > limit
		l.tell(now, all[:min(limit, len(all))], machine.Event{Name: machine.Expire, Actor: "scheduler"}, ended)
		return nil
	})
	return ended, more, err
}

// CloseUnknown closes unknown outcomes that nobody answered within resolve_within, at
// most limit, and returns how many and whether there may be more.
func (l *Ledger) CloseUnknown(ctx context.Context, limit int) (closed int, more bool, err error) {
	err = l.write(ctx, "CloseUnknown", func(now time.Time) error {
		all := l.where(func(r machine.Row) bool { return r.State == job.Unknown && !r.Closed && !now.Before(r.ClosesAt()) })
		more = len(all) > limit
		ended := make(machine.Tally)
		l.tell(now, all[:min(limit, len(all))], machine.Event{Name: machine.Close, Actor: "scheduler"}, ended)
		closed = ended.Total()
		return nil
	})
	return closed, more, err
}

// tell decides one event for many generations and counts what changed.
func (l *Ledger) tell(now time.Time, all []*generation, ev machine.Event, changed machine.Tally) {
	for _, g := range all {
		if d := l.decide(now, target{job: g.row.Job, generation: g.row.Generation, event: ev})[0]; d.applied() {
			changed.Add(d.row)
		}
	}
}

// Tally counts the jobs in each state, by their current generation.
func (l *Ledger) Tally(ctx context.Context) (map[job.State]int, error) {
	tally := make(map[job.State]int)
	err := l.read(ctx, "Tally", func(time.Time) error {
		for _, id := range l.order {
			tally[l.jobs[id].current().row.State]++
		}
		return nil
	})
	return tally, err
}
