package memledger

import (
	"context"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// walk is the place of the patrol in its walk over all jobs.
type walk struct {
	last      int64 // the last job that was looked at
	began, at time.Time
}

// Patrol looks at the next page of about rows jobs, and sets right what nobody else
// noticed: leases that are over, generations that have expired, unknown outcomes that
// are still asked about; and it removes jobs whose retention is over. A page is taken
// at least every ago after the last.
func (l *Ledger) Patrol(ctx context.Context, rows int, every, retention time.Duration) (machine.Patrol, error) {
	var found machine.Patrol
	err := l.write(ctx, "Patrol", func(now time.Time) error {
		w := &l.walk
		if found.Mine = !now.Before(w.at.Add(every)); !found.Mine {
			return nil
		}
		w.at, found.Acted = now, make(map[machine.Finding]int)
		page := slices.DeleteFunc(slices.Clone(l.order), func(id int64) bool { return id <= w.last })
		page = page[:min(rows, len(page))]
		if len(page) == 0 {
			if w.last > 0 {
				found.Walk = now.Sub(w.began)
			}
			w.last = 0
			return nil
		}
		if w.last == 0 {
			w.began = now
		}
		w.last = page[len(page)-1]
		for _, id := range page {
			found.Rows += len(l.jobs[id].generations)
			l.patrol(now, l.jobs[id], retention, &found)
		}
		return nil
	})
	return found, err
}

func (l *Ledger) patrol(now time.Time, e *entry, retention time.Duration, found *machine.Patrol) {
	g := e.current()
	r := l.row(e, g)
	t := target{job: r.Job, generation: r.Generation}
	finding := machine.FoundExpired
	switch r.State {
	case job.Leased:
		found.OldestLease = max(found.OldestLease, now.Sub(r.LeasedAt))
		lives := l.alive(r.Worker) && now.Before(r.LeasedAt.Add(r.Limit+l.leaseTime(r.Worker)+lateCommit))
		if lives {
			return
		}
		finding, t.event = machine.FoundLease, machine.Event{Name: machine.LeaseEnded, Fence: r.Fence, Detail: "no record of a lease that lives was found", Actor: "patrol"}
	case job.Scheduled, job.Ready:
		if r.State == job.Ready {
			found.OldestReady = max(found.OldestReady, now.Sub(r.FirstReady))
		}
		t.event = machine.Event{Name: machine.Expire, Actor: "patrol"}
	case job.Unknown:
		finding, t.event = machine.FoundOpen, machine.Event{Name: machine.Close, Actor: "patrol"}
	case job.Delivered, job.Quarantined, job.Cancelled:
	}
	if t.event.Name != "" && l.decide(now, t)[0].applied() {
		found.Acted[finding]++
		return
	}
	if l.old(g, now, retention) {
		l.remove(e)
		found.Acted[machine.FoundOld]++
	}
}

// leaseTime is that of the worker.
func (l *Ledger) leaseTime(id string) time.Duration {
	if w := l.workers[id]; w != nil {
		return w.LeaseTime
	}
	return 0
}

// old reports whether the retention of a job is over.
func (l *Ledger) old(g *generation, now time.Time, retention time.Duration) bool {
	r := g.row
	if c := l.jobs[r.Job].cleanup; c != (machine.Cleanup{}) && !c.Settled() {
		return false // its cleanup comes first
	}
	if r.State.Pending() || !g.ended.Before(now.Add(-retention)) {
		return false
	}
	return r.State != job.Unknown || (r.Closed && !now.Before(r.ClosesAt().Add(retention)))
}

// remove takes a job's rows away. Its key stays and says how it ended.
func (l *Ledger) remove(e *entry) {
	r := e.current().row
	l.keys[job.KeyHash(e.spec.Kind, e.spec.Key)].state = r.State
	delete(l.jobs, r.Job)
	l.order = slices.DeleteFunc(l.order, func(id int64) bool { return id == r.Job })
}
