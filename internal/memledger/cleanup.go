package memledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// gate keeps the cleanup of a job in step with a row that was decided; received says
// whether its delivery has a receipt.
func (e *entry) gate(before, row machine.Row, received bool, now time.Time) {
	if !e.cleanup.DoneAt.IsZero() {
		return // what is done stays done, whatever follows
	}
	if row.Over() && e.cleanup.Settled() {
		return // what was given up does too, until its job is redriven
	}
	changed := before.State != row.State || before.Closed != row.Closed
	switch {
	case row.Over() && (changed || !before.Over()):
		if c := row.BeginCleanup(received, now); c != (machine.Cleanup{}) {
			c.FailedAt, c.Error = e.cleanup.FailedAt, e.cleanup.Error
			e.cleanup = c
		}
	case before.Over() && !row.Over():
		e.cleanup = machine.Cleanup{}
	}
}

// TakeCleanups takes due cleanups of a kind, to be done by these means, at most limit.
// Nobody else takes them before hold is over. What was taken as often as the kind's rule
// allows waits for a person instead, and is counted.
func (l *Ledger) TakeCleanups(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) (tasks []machine.CleanupTask, parked int, err error) {
	err = l.write(ctx, "TakeCleanups", func(now time.Time) error {
		if refusal := l.known(kind); refusal != nil {
			return refusal
		}
		rule := l.kinds[kind].Cleanup
		tasks, parked = nil, 0
		if rule == nil {
			return nil
		}
		var due []*entry
		for _, id := range l.order {
			e := l.jobs[id]
			if c := e.cleanup; e.spec.Kind == kind && !c.NextAt.IsZero() && !now.Before(c.NextAt) {
				due = append(due, e)
			}
		}
		slices.SortStableFunc(due, func(a, b *entry) int { return a.cleanup.NextAt.Compare(b.cleanup.NextAt) })
		for _, e := range due[:min(limit, len(due))] {
			c := &e.cleanup
			c.By = c.TakenBy(by)
			c.Tries++
			if c.Tries > rule.MaxTries {
				c.NextAt, c.ParkedAt, c.FailedAt, c.Error = time.Time{}, now, now, "whoever tried it last never said what came of it"
				parked++
				continue
			}
			c.NextAt = now.Add(hold)
			r := e.current().row
			tasks = append(tasks, machine.CleanupTask{
				Job: r.Job, Generation: c.Generation, Kind: kind, Key: e.spec.Key, Subject: e.spec.Subject, Period: e.spec.Period, State: r.State,
				Tries: c.Tries, FailingSince: c.FailingSince,
			})
		}
		slices.SortFunc(tasks, func(a, b machine.CleanupTask) int { return cmp.Compare(a.Job, b.Job) })
		return nil
	})
	return tasks, parked, err
}

// NoteCleanups takes what came of tasks, and says what it made of each.
func (l *Ledger) NoteCleanups(ctx context.Context, results []machine.CleanupResult) ([]machine.CleanupOutcome, error) {
	var outcomes []machine.CleanupOutcome
	err := l.write(ctx, "NoteCleanups", func(now time.Time) error {
		outcomes = make([]machine.CleanupOutcome, len(results))
		for i, r := range results {
			outcomes[i] = l.noteCleanup(r, now)
		}
		return nil
	})
	return outcomes, err
}

func (l *Ledger) noteCleanup(r machine.CleanupResult, now time.Time) machine.CleanupOutcome {
	e := l.jobs[r.Job]
	if e == nil || e.cleanup.NextAt.IsZero() || e.cleanup.Generation != r.Generation || e.cleanup.Tries != r.Tries {
		return machine.CleanupStale
	}
	c := &e.cleanup
	if r.Error == "" {
		c.DoneAt, c.NextAt, c.Rows = now, time.Time{}, r.Rows
		return machine.CleanupDone
	}
	c.NextAt = l.kinds[r.Kind].NextCleanup(r.CleanupTask, now)
	c.FailedAt, c.Error = now, job.Storable(r.Error, job.MaxDetail)
	if c.FailingSince.IsZero() {
		c.FailingSince = now
	}
	if c.NextAt.IsZero() {
		c.ParkedAt = now
		return machine.CleanupParked
	}
	return machine.CleanupFailed
}

// RetryCleanup lets a cleanup that failed, or was given up, be tried again now, counted
// from the beginning.
func (l *Ledger) RetryCleanup(ctx context.Context, r machine.CleanupRetry) (machine.Cleanup, error) {
	return l.decideCleanup(ctx, "RetryCleanup", r.Kind, r.Key, func(c *machine.Cleanup, now time.Time) bool {
		if c.FailedAt.IsZero() && c.GivenUpAt.IsZero() {
			return false
		}
		c.ParkedAt, c.GivenUpAt, c.Tries, c.FailingSince = time.Time{}, time.Time{}, 0, time.Time{}
		if c.NextAt = c.DueAt; now.After(c.DueAt) {
			c.NextAt = now
		}
		return true
	})
}

// GiveUpCleanup lets a cleanup that is not done be tried no more.
func (l *Ledger) GiveUpCleanup(ctx context.Context, r machine.CleanupGiveUp) (machine.Cleanup, error) {
	return l.decideCleanup(ctx, "GiveUpCleanup", r.Kind, r.Key, func(c *machine.Cleanup, now time.Time) bool {
		if !c.GivenUpAt.IsZero() || r.Reason == "" {
			return false
		}
		c.GivenUpAt, c.NextAt, c.ParkedAt = now, time.Time{}, time.Time{}
		return true
	})
}

// decideCleanup lets a person's decision change a cleanup that is not done; false refuses.
func (l *Ledger) decideCleanup(ctx context.Context, doing, kind, key string, decide func(c *machine.Cleanup, now time.Time) bool) (machine.Cleanup, error) {
	var c machine.Cleanup
	err := l.write(ctx, doing, func(now time.Time) error {
		k := l.keys[job.KeyHash(kind, key)]
		name := kind + "/" + key
		if k == nil || l.jobs[k.job] == nil || l.jobs[k.job].cleanup == (machine.Cleanup{}) {
			return fmt.Errorf("%s: no cleanup of it is due: %w", name, job.ErrNotFound)
		}
		kept := &l.jobs[k.job].cleanup
		if !kept.DoneAt.IsZero() || !decide(kept, now) {
			return fmt.Errorf("%s: what its cleanup has come to forbids that: %w", name, job.ErrRefused)
		}
		c = *kept
		return nil
	})
	return orZero(c, err)
}
