package eval

import (
	"context"
	"time"

	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/job"
)

// store is a ledger, on PostgreSQL or in memory, as all loops together know it.
type store interface { //nolint:interfacebloat // it is the sum of what loops declare, each of them small
	execute.Ledger
	dispatch.Ledger
	schedule.Ledger
	sweep.Ledger
	sweep.Questions
	sweep.Cleanups
	contact.Ledger
	redrive.Ledger
	redrive.Finder
	SyncKinds(ctx context.Context, kinds []machine.Kind) error
	Show(ctx context.Context, kind, key string) (machine.Story, error)
	List(ctx context.Context, req machine.ListRequest) (machine.Listed, error)
	Tally(ctx context.Context) (map[job.State]int, error)
}

// view is the ledger as one process sees it: every call that changes something passes the
// moments of the process. What only reads is left as it is.
type view struct {
	store

	heart execute.Heart
	proc  *proc
}

// plain makes a call that passes no moment of its own.
func (v *view) plain(do func() error) error {
	return v.proc.call("", func() (moment, error) { return moment{}, do() })
}

// Lease leases references.
func (v *view) Lease(ctx context.Context, r machine.LeaseRequest) (leases machine.Leases, err error) {
	err = v.proc.call(beforeLease, func() (moment, error) {
		leases, err = v.store.Lease(ctx, r)
		if err == nil {
			v.proc.world.leased(leases)
		}
		after := moment{point: afterLease, kind: r.Kind.Name, grants: leases.Grants}
		if len(leases.Grants) == 0 {
			after = moment{}
		}
		return after, err
	})
	if err != nil {
		return machine.Leases{}, err
	}
	return leases, nil
}

// LeasedBy reads back what the worker holds.
func (v *view) LeasedBy(ctx context.Context, worker string, refs []job.Ref) (grants []machine.Grant, err error) {
	err = v.plain(func() error { grants, err = v.store.LeasedBy(ctx, worker, refs); return err })
	return grants, err
}

// Settle commits results.
func (v *view) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) (settled []machine.Settled, err error) {
	if err := v.proc.at(moment{point: beforeSettle, reports: reports}); err != nil {
		return nil, err
	}
	err = v.proc.call("", func() (moment, error) {
		settled, err = v.store.Settle(ctx, w, reports)
		if m := v.proc.world.meter; m != nil {
			m.settled(settled)
		}
		return moment{point: afterSettle, reports: reports}, err
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// HoldRefs holds references.
func (v *view) HoldRefs(ctx context.Context, refs []job.Ref, hold job.Hold, d time.Duration) (locked []job.Ref, err error) {
	err = v.plain(func() error { locked, err = v.store.HoldRefs(ctx, refs, hold, d); return err })
	return locked, err
}

// PassMark reports a mark.
func (v *view) PassMark(ctx context.Context, lane string, partition int32, number int64) error {
	return v.plain(func() error { return v.store.PassMark(ctx, lane, partition, number) })
}

// Reject sets a message aside.
func (v *view) Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error {
	return v.plain(func() error {
		err := v.store.Reject(ctx, source, sourceID, body, cause)
		if err == nil {
			v.proc.world.rejected()
		}
		return err
	})
}

// RegisterWorker writes the worker's row.
func (v *view) RegisterWorker(ctx context.Context, w machine.Worker) error {
	return v.plain(func() error { return v.heart.RegisterWorker(ctx, w) })
}

// Heartbeat renews the worker's leases.
func (v *view) Heartbeat(ctx context.Context, worker string) (held []machine.Attempt, err error) {
	err = v.plain(func() error { held, err = v.heart.Heartbeat(ctx, worker); return err })
	return held, err
}

// EndWorker ends the worker's row.
func (v *view) EndWorker(ctx context.Context, worker string) error {
	return v.plain(func() error { return v.heart.EndWorker(ctx, worker) })
}

// ClaimTopic takes or renews a topic.
func (v *view) ClaimTopic(ctx context.Context, topic, holder string, d time.Duration) (held bool, err error) {
	err = v.plain(func() error { held, err = v.store.ClaimTopic(ctx, topic, holder, d); return err })
	return held, err
}

// ReleaseTopic gives a topic up.
func (v *view) ReleaseTopic(ctx context.Context, topic, holder string) error {
	return v.plain(func() error { return v.store.ReleaseTopic(ctx, topic, holder) })
}

// Advance moves a topic's cursor.
func (v *view) Advance(ctx context.Context, topic, holder string, page machine.Page) error {
	if len(page.Rows) > 0 {
		if err := v.proc.at(moment{point: afterPublish}); err != nil {
			return err
		}
	}
	return v.plain(func() error { return v.store.Advance(ctx, topic, holder, page) })
}

// IssueMark writes a mark.
func (v *view) IssueMark(ctx context.Context, lane, holder string, partitions []int32) (m machine.Mark, err error) {
	err = v.plain(func() error { m, err = v.store.IssueMark(ctx, lane, holder, partitions); return err })
	return m, err
}

// Promote promotes what is due.
func (v *view) Promote(ctx context.Context, from machine.Position, limit int) (p machine.Promotion, err error) {
	err = v.plain(func() error { p, err = v.store.Promote(ctx, from, limit); return err })
	return p, err
}

// EndDead ends a dead worker's row.
func (v *view) EndDead(ctx context.Context, worker string, count int64) (ended bool, err error) {
	err = v.plain(func() error { ended, err = v.store.EndDead(ctx, worker, count); return err })
	return ended, err
}

// EndLeasesOf ends leases of a dead worker.
func (v *view) EndLeasesOf(ctx context.Context, worker string, from time.Time, limit int) (s machine.LeaseSweep, err error) {
	err = v.plain(func() error { s, err = v.store.EndLeasesOf(ctx, worker, from, limit); return err })
	return s, err
}

// Judge announces anew what the bus lost.
func (v *view) Judge(ctx context.Context, lane string, unbroken time.Duration, limit int) (lost int, more bool, err error) {
	err = v.plain(func() error { lost, more, err = v.store.Judge(ctx, lane, unbroken, limit); return err })
	v.proc.world.judged(lost)
	return lost, more, err
}

// Answer takes what receivers said.
func (v *view) Answer(ctx context.Context, replies []machine.Reply) (answered []machine.Answered, err error) {
	err = v.proc.call("", func() (moment, error) {
		answered, err = v.store.Answer(ctx, replies)
		return moment{point: afterAnswer}, err
	})
	return answered, err
}

// NoteCleanups takes what came of cleanups.
func (v *view) NoteCleanups(ctx context.Context, results []machine.CleanupResult) (outcomes []machine.CleanupOutcome, err error) {
	err = v.proc.call("", func() (moment, error) {
		outcomes, err = v.store.NoteCleanups(ctx, results)
		return moment{point: afterCleanup}, err
	})
	return outcomes, err
}

// cleaner is a statement that cleans up, as a scheduler sees it.
type cleaner struct {
	sweep.Cleaner

	proc *proc
}

// Clean cleans up; that it is done is in the same commit.
func (c *cleaner) Clean(ctx context.Context, limit int, hold time.Duration) (outcomes []machine.CleanupOutcome, err error) {
	err = c.proc.call("", func() (moment, error) {
		outcomes, err = c.Cleaner.Clean(ctx, limit, hold)
		if m := c.proc.world.meter; m != nil {
			m.cleanedUp(outcomes)
		}
		if len(outcomes) == 0 {
			return moment{}, err
		}
		return moment{point: afterCleanup}, err
	})
	return outcomes, err
}

// runs is where runs are, as a scheduler sees them.
type runs struct {
	schedule.RunLedger

	proc *proc
}

// Fire decides about a schedule.
func (r *runs) Fire(ctx context.Context, name, kind string, step time.Duration, decide func(machine.Moment) machine.Firing) (fired machine.Fired, decided bool, err error) {
	err = r.proc.call(beforeFire, func() (moment, error) {
		fired, decided, err = r.RunLedger.Fire(ctx, name, kind, step, decide)
		return moment{}, err
	})
	return fired, decided, err
}

// FreezeNext freezes a run, which passes a moment behind each batch of its members.
func (r *runs) FreezeNext(ctx context.Context, schedules []string, plan func(machine.Run) (machine.Selection, error), rest func(int) time.Duration) (run *machine.Run, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = r.proc.call("", func() (moment, error) {
		run, err = r.RunLedger.FreezeNext(ctx, schedules, func(one machine.Run) (machine.Selection, error) {
			s, err := plan(one)
			s.Progress = func(int64) {
				if r.proc.at(moment{point: freezing}) != nil {
					cancel()
				}
			}
			return s, err
		}, rest)
		return moment{}, err
	})
	return run, err
}
