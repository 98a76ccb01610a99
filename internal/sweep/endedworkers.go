package sweep

import (
	"context"
	"time"

	"duly.dev/duly/internal/machine"
)

// Leases is where the leases of ended workers are found.
type Leases interface {
	// Undrained lists the workers that have ended and that Drained was not called for.
	Undrained(ctx context.Context) ([]string, error)
	// EndLeasesOf ends the next leases of an ended worker, behind the instant.
	EndLeasesOf(ctx context.Context, worker string, from time.Time, limit int) (machine.LeaseSweep, error)
	// Drained notes that no lease of the worker was left.
	Drained(ctx context.Context, worker string) error
}

// again is when an ended worker's leases are looked for once more after a look that
// found none: a lease whose commit was on its way when the row ended comes late. After
// the last of these looks nobody looks again but the patrol.
var again = []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}

// leaseRows is how many lease rows one look takes at once.
const leaseRows = 100

// undertaker ends what ended workers held.
type undertaker struct {
	*Sweeper
	ledger  Leases
	workers map[string]*aftermath
}

// aftermath is how far the looks after a worker have come.
type aftermath struct {
	clean int           // looks in a row that found nothing
	next  time.Duration // monotonic
}

func (s *Sweeper) endedWorkers() loop {
	u := &undertaker{Sweeper: s, ledger: s.options.Ledger}
	return loop{name: "ended workers", every: min(time.Second, s.options.LeaseTime/6), round: u.round}
}

// round looks after every ended worker whose time has come.
func (u *undertaker) round(ctx context.Context) (more bool, err error) {
	ids, err := u.ledger.Undrained(ctx)
	if err != nil {
		return false, err
	}
	workers := make(map[string]*aftermath, len(ids))
	for _, id := range ids {
		if workers[id] = u.workers[id]; workers[id] == nil {
			workers[id] = &aftermath{}
		}
	}
	u.workers = workers
	for _, id := range ids {
		a := workers[id]
		if u.now().Elapsed < a.next && a.clean > 0 {
			continue
		}
		found, err := u.look(ctx, id)
		if err != nil {
			return false, err
		}
		if err := u.after(ctx, id, a, found); err != nil {
			return false, err
		}
	}
	return false, nil
}

// look goes through all leases of the worker once and reports whether one was found.
func (u *undertaker) look(ctx context.Context, id string) (found bool, err error) {
	var from time.Time
	for more := true; more; {
		done, err := u.ledger.EndLeasesOf(ctx, id, from, leaseRows)
		if err != nil {
			return false, err
		}
		u.metrics.leases("worker_ended", done.Ended)
		found = found || done.Left > 0 || done.Ended.Total() > 0
		from, more = done.Next, done.More
	}
	return found, nil
}

// after says when to look again, or that it is over.
func (u *undertaker) after(ctx context.Context, id string, a *aftermath, found bool) error {
	if found {
		a.clean = 0
		return nil
	}
	if a.clean == len(again) {
		return u.ledger.Drained(ctx, id)
	}
	a.next = u.now().Elapsed + again[a.clean]
	a.clean++
	return nil
}
