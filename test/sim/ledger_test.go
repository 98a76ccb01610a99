package sim

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/job"
)

// ledger is the ledger as one life of a process sees it: far away.
type ledger struct {
	*life
	far *memledger.Ledger
}

// All loops run on it as they are.
var (
	_ execute.Ledger  = (*ledger)(nil)
	_ execute.Heart   = (*ledger)(nil)
	_ dispatch.Ledger = (*ledger)(nil)
	_ schedule.Ledger = (*ledger)(nil)
	_ sweep.Ledger    = (*ledger)(nil)
	_ sweep.Questions = (*ledger)(nil)
	_ sweep.Cleanups  = (*ledger)(nil)
	_ redrive.Ledger  = (*ledger)(nil)
	_ redrive.Finder  = (*ledger)(nil)
)

// none is the result of what has only an error.
type none = struct{}

func onlyErr(do func(context.Context) error) func(context.Context) (none, error) {
	return func(ctx context.Context) (none, error) { return none{}, do(ctx) }
}

func ofRef(r job.Ref) uint64 { return digest(r.Job, r.Generation, r.Emission) }

func ofAttempt(a machine.Attempt) uint64 { return digest(a.Job, a.Generation, a.Fence) }

// What workers ask.

func (l *ledger) Lease(ctx context.Context, r machine.LeaseRequest) (machine.Leases, error) {
	leases, err := change(ctx, l.life, "Lease", digestOf(r.Refs, ofRef), func(ctx context.Context) (machine.Leases, error) { return l.far.Lease(ctx, r) })
	for _, g := range leases.Grants {
		l.grant(g)
	}
	for _, e := range leases.Early {
		if e.In >= time.Second { // else it is asked for again from here
			l.answer(e.Ref)
		}
	}
	l.answer(leases.Stale...)
	return leases, err
}

func (l *ledger) LeasedBy(ctx context.Context, worker string, refs []job.Ref) ([]machine.Grant, error) {
	grants, err := look(ctx, l.life, "LeasedBy", digestOf(refs, ofRef), func(ctx context.Context) ([]machine.Grant, error) { return l.far.LeasedBy(ctx, worker, refs) })
	for _, g := range grants {
		if l.grant(g) { // it runs here already, so that the copy is stale
			l.settled(machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence})
		}
	}
	return grants, err
}

func (l *ledger) Bind(ctx context.Context, w machine.Worker, bindings []machine.Binding) ([]bool, error) {
	about := digestOf(bindings, func(b machine.Binding) uint64 { return ofAttempt(b.Attempt) })
	return change(ctx, l.life, "Bind", about, func(ctx context.Context) ([]bool, error) { return l.far.Bind(ctx, w, bindings) })
}

func (l *ledger) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	about := digestOf(reports, func(r machine.Report) uint64 { return digest(ofAttempt(r.Attempt), string(r.Result.Outcome)) })
	return change(ctx, l.life, "Settle", about, func(ctx context.Context) ([]machine.Settled, error) {
		all, err := l.far.Settle(ctx, w, reports)
		if err != nil {
			return nil, err
		}
		for _, r := range reports {
			l.settled(r.Attempt)
			l.w.history.reported(r)
		}
		return all, nil
	})
}

func (l *ledger) HoldRefs(ctx context.Context, refs []job.Ref, hold job.Hold, d time.Duration) ([]job.Ref, error) {
	return change(ctx, l.life, "HoldRefs", digestOf(refs, ofRef), func(ctx context.Context) ([]job.Ref, error) {
		left, err := l.far.HoldRefs(ctx, refs, hold, d)
		if err != nil {
			return nil, err
		}
		l.answer(slices.DeleteFunc(slices.Clone(refs), func(r job.Ref) bool { return slices.Contains(left, r) })...)
		if hold == job.HoldUnknownKind {
			l.w.happenedf(oldVersion, "%s holds %v", l.name, refs)
		}
		return left, nil
	})
}

func (l *ledger) PassMark(ctx context.Context, lane string, partition int32, n int64) error {
	_, err := change(ctx, l.life, "PassMark", digest(lane, n), onlyErr(func(ctx context.Context) error {
		if err := l.far.PassMark(ctx, lane, partition, n); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.passed[n] = true
		return nil
	}))
	return err
}

func (l *ledger) Reject(ctx context.Context, source, id string, body []byte, cause error) error {
	_, err := change(ctx, l.life, "Reject", digest(id), onlyErr(func(ctx context.Context) error { return l.far.Reject(ctx, source, id, body, cause) }))
	return err
}

func (l *ledger) RegisterWorker(ctx context.Context, w machine.Worker) error {
	_, err := change(ctx, l.life, "RegisterWorker", digest(w.ID), onlyErr(func(ctx context.Context) error {
		err := l.far.RegisterWorker(ctx, w)
		l.w.history.beats(w.ID)
		return err
	}))
	return err
}

func (l *ledger) Heartbeat(ctx context.Context, worker string) ([]machine.Attempt, error) {
	return change(ctx, l.life, "Heartbeat", digest(worker), func(ctx context.Context) ([]machine.Attempt, error) {
		held, err := l.far.Heartbeat(ctx, worker)
		l.w.history.beats(worker)
		return held, err
	})
}

func (l *ledger) EndWorker(ctx context.Context, worker string) error {
	_, err := change(ctx, l.life, "EndWorker", digest(worker), onlyErr(func(ctx context.Context) error { return l.far.EndWorker(ctx, worker) }))
	return err
}

// What dispatchers ask.

func (l *ledger) ClaimTopic(ctx context.Context, topic, holder string, d time.Duration) (bool, error) {
	return change(ctx, l.life, "ClaimTopic", digest(topic), func(ctx context.Context) (bool, error) { return l.far.ClaimTopic(ctx, topic, holder, d) })
}

func (l *ledger) ReleaseTopic(ctx context.Context, topic, holder string) error {
	_, err := change(ctx, l.life, "ReleaseTopic", digest(topic), onlyErr(func(ctx context.Context) error { return l.far.ReleaseTopic(ctx, topic, holder) }))
	return err
}

func (l *ledger) ReadOutbox(ctx context.Context, topic, holder string, most int) (machine.Page, error) {
	return look(ctx, l.life, "ReadOutbox", digest(topic), func(ctx context.Context) (machine.Page, error) { return l.far.ReadOutbox(ctx, topic, holder, most) })
}

func (l *ledger) Advance(ctx context.Context, topic, holder string, page machine.Page) error {
	_, err := change(ctx, l.life, "Advance", digest(topic, page.Cursor.Version), onlyErr(func(ctx context.Context) error { return l.far.Advance(ctx, topic, holder, page) }))
	return err
}

func (l *ledger) Notices(ctx context.Context, refs []job.Ref) ([]machine.Notice, error) {
	return look(ctx, l.life, "Notices", digestOf(refs, ofRef), func(ctx context.Context) ([]machine.Notice, error) { return l.far.Notices(ctx, refs) })
}

func (l *ledger) SetAside(ctx context.Context, topic string, rows []machine.OutboxRow, cause error) error {
	about := digestOf(rows, func(r machine.OutboxRow) uint64 { return digest(r.ID) })
	_, err := change(ctx, l.life, "SetAside", about, onlyErr(func(ctx context.Context) error { return l.far.SetAside(ctx, topic, rows, cause) }))
	return err
}

func (l *ledger) RetryUnsendable(ctx context.Context, topic string) (int, error) {
	return change(ctx, l.life, "RetryUnsendable", digest(topic), func(ctx context.Context) (int, error) { return l.far.RetryUnsendable(ctx, topic) })
}

func (l *ledger) IssueMark(ctx context.Context, lane, holder string, partitions []int32) (machine.Mark, error) {
	return change(ctx, l.life, "IssueMark", digest(lane), func(ctx context.Context) (machine.Mark, error) {
		return l.far.IssueMark(ctx, lane, holder, partitions)
	})
}

func (l *ledger) MarkStands(ctx context.Context, lane string) (bool, error) {
	return look(ctx, l.life, "MarkStands", digest(lane), func(ctx context.Context) (bool, error) { return l.far.MarkStands(ctx, lane) })
}

func (l *ledger) OutboxDepth(ctx context.Context, topic string, most int) (int, error) {
	return glance(ctx, l.life, func(ctx context.Context) (int, error) { return l.far.OutboxDepth(ctx, topic, most) })
}

func (l *ledger) CountUnsendable(ctx context.Context) (map[string]int, error) {
	return glance(ctx, l.life, l.far.CountUnsendable)
}

func (l *ledger) StandingMarks(ctx context.Context) ([]machine.Mark, error) {
	return glance(ctx, l.life, l.far.StandingMarks)
}

func (l *ledger) Topics(ctx context.Context) ([]string, error) {
	return glance(ctx, l.life, l.far.Topics)
}

func (l *ledger) Bus(ctx context.Context) (string, error) { return glance(ctx, l.life, l.far.Bus) }

func (l *ledger) CheckRestored(ctx context.Context) (bool, error) {
	return glance(ctx, l.life, l.far.CheckRestored)
}

// What schedulers ask.

func (l *ledger) Now(ctx context.Context) (time.Time, error) { return glance(ctx, l.life, l.far.Now) }

func (l *ledger) Promote(ctx context.Context, from machine.Position, most int) (machine.Promotion, error) {
	return change(ctx, l.life, "Promote", 0, func(ctx context.Context) (machine.Promotion, error) { return l.far.Promote(ctx, from, most) })
}

func (l *ledger) Beats(ctx context.Context) ([]machine.Beat, error) {
	return look(ctx, l.life, "Beats", 0, l.far.Beats)
}

func (l *ledger) EndDead(ctx context.Context, worker string, count int64) (bool, error) {
	decided := l.w.elapsed()
	return change(ctx, l.life, "EndDead", digest(worker), func(ctx context.Context) (bool, error) {
		ended, err := l.far.EndDead(ctx, worker, count)
		if ended {
			l.w.history.buried(l.life, worker, decided)
		}
		return ended, err
	})
}

func (l *ledger) Undrained(ctx context.Context) ([]string, error) {
	return look(ctx, l.life, "Undrained", 0, l.far.Undrained)
}

func (l *ledger) EndLeasesOf(ctx context.Context, worker string, from time.Time, most int) (machine.LeaseSweep, error) {
	return change(ctx, l.life, "EndLeasesOf", digest(worker), func(ctx context.Context) (machine.LeaseSweep, error) {
		return l.far.EndLeasesOf(ctx, worker, from, most)
	})
}

func (l *ledger) Drained(ctx context.Context, worker string) error {
	_, err := change(ctx, l.life, "Drained", digest(worker), onlyErr(func(ctx context.Context) error { return l.far.Drained(ctx, worker) }))
	return err
}

func (l *ledger) EndOverrun(ctx context.Context, most int) (machine.LeaseSweep, error) {
	return change(ctx, l.life, "EndOverrun", 0, func(ctx context.Context) (machine.LeaseSweep, error) { return l.far.EndOverrun(ctx, most) })
}

// pairOf is what Expire and its like answer.
type pairOf[T any] struct {
	n    T
	more bool
}

func (l *ledger) Expire(ctx context.Context, most int) (machine.Tally, bool, error) {
	p, err := change(ctx, l.life, "Expire", 0, func(ctx context.Context) (p pairOf[machine.Tally], err error) {
		p.n, p.more, err = l.far.Expire(ctx, most)
		return p, err
	})
	return p.n, p.more, err
}

func (l *ledger) CloseUnknown(ctx context.Context, most int) (int, bool, error) {
	p, err := change(ctx, l.life, "CloseUnknown", 0, func(ctx context.Context) (p pairOf[int], err error) {
		p.n, p.more, err = l.far.CloseUnknown(ctx, most)
		return p, err
	})
	return p.n, p.more, err
}

func (l *ledger) Patrol(ctx context.Context, rows int, every, retention time.Duration) (machine.Patrol, error) {
	return change(ctx, l.life, "Patrol", 0, func(ctx context.Context) (machine.Patrol, error) { return l.far.Patrol(ctx, rows, every, retention) })
}

func (l *ledger) Judge(ctx context.Context, lane string, contact time.Duration, most int) (int, bool, error) {
	p, err := change(ctx, l.life, "Judge", digest(lane), func(ctx context.Context) (p pairOf[int], err error) {
		p.n, p.more, err = l.far.Judge(ctx, lane, contact, most)
		return p, err
	})
	return p.n, p.more, err
}

func (l *ledger) KeepOutbox(ctx context.Context) (int, error) {
	return change(ctx, l.life, "KeepOutbox", 0, l.far.KeepOutbox)
}

func (l *ledger) KeepPartitions(ctx context.Context, keep time.Duration) (machine.Partitions, error) {
	return change(ctx, l.life, "KeepPartitions", 0, func(ctx context.Context) (machine.Partitions, error) { return l.far.KeepPartitions(ctx, keep) })
}

func (l *ledger) RemoveWorkers(ctx context.Context, after time.Duration) (int, error) {
	return change(ctx, l.life, "RemoveWorkers", 0, func(ctx context.Context) (int, error) { return l.far.RemoveWorkers(ctx, after) })
}

func (l *ledger) Kinds(ctx context.Context) ([]machine.Kind, error) {
	return glance(ctx, l.life, l.far.Kinds)
}

func (l *ledger) Figures(ctx context.Context, most int) (machine.Figures, error) {
	return glance(ctx, l.life, func(ctx context.Context) (machine.Figures, error) { return l.far.Figures(ctx, most) })
}

func (l *ledger) TakeQuestions(ctx context.Context, kind string, by machine.Means, most int, hold time.Duration) ([]machine.Question, error) {
	return change(ctx, l.life, "TakeQuestions", digest(kind), func(ctx context.Context) ([]machine.Question, error) {
		return l.far.TakeQuestions(ctx, kind, by, most, hold)
	})
}

func (l *ledger) Answer(ctx context.Context, replies []machine.Reply) ([]machine.Answered, error) {
	about := digestOf(replies, func(r machine.Reply) uint64 { return digest(r.Job, r.Generation, string(r.Said)) })
	return change(ctx, l.life, "Answer", about, func(ctx context.Context) ([]machine.Answered, error) { return l.far.Answer(ctx, replies) })
}

// taken is what TakeCleanups answers.
type taken struct {
	tasks  []machine.CleanupTask
	parked int
}

func (l *ledger) TakeCleanups(ctx context.Context, kind string, by machine.Means, most int, hold time.Duration) ([]machine.CleanupTask, int, error) {
	t, err := change(ctx, l.life, "TakeCleanups", digest(kind), func(ctx context.Context) (t taken, err error) {
		t.tasks, t.parked, err = l.far.TakeCleanups(ctx, kind, by, most, hold)
		for _, task := range t.tasks {
			l.w.history.cleans(task)
		}
		return t, err
	})
	return t.tasks, t.parked, err
}

func (l *ledger) NoteCleanups(ctx context.Context, results []machine.CleanupResult) ([]machine.CleanupOutcome, error) {
	about := digestOf(results, func(r machine.CleanupResult) uint64 { return digest(r.Job) })
	return change(ctx, l.life, "NoteCleanups", about, func(ctx context.Context) ([]machine.CleanupOutcome, error) {
		outcomes, err := l.far.NoteCleanups(ctx, results)
		for i, o := range outcomes {
			if o == machine.CleanupDone {
				l.w.history.cleaned(results[i].CleanupTask)
			}
		}
		return outcomes, err
	})
}

func (l *ledger) SyncKinds(ctx context.Context, kinds []machine.Kind) error {
	_, err := change(ctx, l.life, "SyncKinds", 0, onlyErr(func(ctx context.Context) error { return l.far.SyncKinds(ctx, kinds) }))
	return err
}

// What persons and producers ask.

func (l *ledger) Redrive(ctx context.Context, r machine.RedriveRequest) (machine.Successor, error) {
	return change(ctx, l.life, "Redrive", digest(r.Kind, r.Key, r.RecoveryKey), func(ctx context.Context) (machine.Successor, error) {
		made, err := l.far.Redrive(ctx, r)
		if err == nil {
			l.w.history.redriven(r, made)
		}
		return made, err
	})
}

func (l *ledger) Resolve(ctx context.Context, a machine.Answer) (machine.Standing, error) {
	return change(ctx, l.life, "Resolve", digest(a.Kind, a.Key, a.Fence), func(ctx context.Context) (machine.Standing, error) { return l.far.Resolve(ctx, a) })
}

func (l *ledger) Cancel(ctx context.Context, c machine.Cancellation) (machine.Standing, error) {
	return change(ctx, l.life, "Cancel", digest(c.Kind, c.Key), func(ctx context.Context) (machine.Standing, error) { return l.far.Cancel(ctx, c) })
}

func (l *ledger) Find(ctx context.Context, kind, key string) (machine.Story, error) {
	return look(ctx, l.life, "Find", digest(kind, key), func(ctx context.Context) (machine.Story, error) { return l.far.Find(ctx, kind, key) })
}

func (l *ledger) List(ctx context.Context, r machine.ListRequest) (machine.Listed, error) {
	return look(ctx, l.life, "List", 0, func(ctx context.Context) (machine.Listed, error) { return l.far.List(ctx, r) })
}

func (l *ledger) Enqueue(ctx context.Context, s job.Spec) (machine.Enqueued, error) {
	return change(ctx, l.life, "Enqueue", digest(s.Kind, s.Key), func(ctx context.Context) (machine.Enqueued, error) {
		all, err := l.far.Enqueue(ctx, []job.Spec{s})
		if err != nil {
			return machine.Enqueued{}, err
		}
		l.w.history.accepts(s, all[0])
		return all[0], nil
	})
}

func (l *ledger) Replace(ctx context.Context, s job.Spec) (machine.Enqueued, error) {
	return change(ctx, l.life, "Replace", digest(s.Kind, s.Key), func(ctx context.Context) (machine.Enqueued, error) {
		all, err := l.far.Replace(ctx, []job.Spec{s})
		if err != nil {
			return machine.Enqueued{}, err
		}
		l.w.history.accepts(s, all[0])
		return all[0], nil
	})
}
