package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

const (
	// lateCommit is how late a lease may be committed, behind the instant that it says,
	// to be found all the same. A later one is found by the patrol.
	lateCommit = 10 * time.Second
	// overdue is how long a lease must be over until it is ended, so that what its worker
	// reports in time is never crossed by the sweep.
	overdue = 5 * time.Second
	// sweepBatch bounds the leases that one transaction ends.
	sweepBatch = 500
)

// EndLeasesOf ends what runs under the next lease rows of an ended worker, at most limit
// rows, behind the instant (zero: from the beginning). It ends only what is still leased
// under the fence that the lease row says, and what another transaction has locked is
// left. Several may call it at once.
func (l *Ledger) EndLeasesOf(ctx context.Context, worker string, from time.Time, limit int) (machine.LeaseSweep, error) {
	doing := "ending the leases of worker " + worker
	var p leasePage
	err := l.seek(ctx, l.pool, func(r pgx.BatchResults) error { return p.scan(r.QueryRow()) },
		stmt("leases_of"), worker, null(from), l.longestLease()+lateCommit, limit)
	if err != nil {
		return machine.LeaseSweep{}, fmt.Errorf("%s: %w", doing, err)
	}
	s := machine.LeaseSweep{Ended: make(machine.Tally), Next: p.end(from), More: p.rows >= limit}
	for part := range slices.Chunk(p.targets("its worker was ended"), sweepBatch) {
		var decisions []decision
		err := l.inTx(ctx, doing, func(tx pgx.Tx) (err error) {
			decisions, err = l.endLeases(ctx, tx, part)
			return err
		})
		if err != nil {
			return s, err
		}
		tally(decisions, &s)
	}
	return s, nil
}

// endLeases decides what the end of their leases makes of the jobs.
func (l *Ledger) endLeases(ctx context.Context, tx pgx.Tx, part []target) ([]decision, error) {
	decisions, _, err := l.decideFree(ctx, tx, part)
	if err != nil {
		return nil, err
	}
	return decisions, failpoint.At(failpoint.SweepDecided)
}

// EndOverrun ends the next leases, out of at most limit lease rows, whose limit and
// lease time are over. Every scheduler may call it: they share one place, and one at a
// time moves it.
func (l *Ledger) EndOverrun(ctx context.Context, limit int) (machine.LeaseSweep, error) {
	const name, doing = "leases", "ending the leases that are over"
	s := machine.LeaseSweep{Ended: make(machine.Tally)}
	some, err := l.ahead(ctx, name, "leases_over", func(at progress) []any { return []any{at.instant, overdue, 1} })
	if err != nil || !some {
		return s, wrapped(err, doing)
	}
	_, err = l.turn(ctx, name, 0, doing, func(tx pgx.Tx, at progress) error {
		s = machine.LeaseSweep{Ended: make(machine.Tally), Next: at.instant}
		var p leasePage
		if err := p.scan(tx.QueryRow(ctx, stmt("leases_over"), at.instant, overdue, limit)); err != nil || p.rows == 0 {
			return err
		}
		s.Next, s.More = p.end(at.instant), p.rows >= limit
		for part := range slices.Chunk(p.targets("its limit and lease time were over"), sweepBatch) {
			decisions, _, err := l.decideFree(ctx, tx, part)
			if err != nil {
				return err
			}
			tally(decisions, &s)
		}
		return move(ctx, tx, name, s.Next, 0)
	})
	return s, err
}

// leasePage is a stretch of lease rows and what runs under them.
type leasePage struct {
	rows         int
	at           *time.Time
	jobs, fences []int64
	generations  []int32
}

func (p *leasePage) scan(row pgx.Row) error {
	return row.Scan(&p.rows, &p.at, &p.jobs, &p.generations, &p.fences)
}

// end is where the page ends.
func (p *leasePage) end(begin time.Time) time.Time {
	if p.at == nil {
		return begin
	}
	return *p.at
}

func (p *leasePage) targets(why string) []target {
	all := make([]target, len(p.jobs))
	for i := range all {
		all[i] = target{Job: p.jobs[i], Generation: p.generations[i], Event: machine.Event{
			Name: machine.LeaseEnded, Fence: p.fences[i], Detail: why, Actor: "scheduler",
		}}
	}
	return all
}

// tally counts decided leases. What was not found was locked by another.
func tally(decisions []decision, s *machine.LeaseSweep) {
	for _, d := range decisions {
		switch {
		case !d.Found:
			s.Left++
		case d.Change.Refused == machine.Applied:
			s.Ended.Add(d.Row)
		}
	}
}

// longestLease is the longest that a lease of any kind may run, by the policies in force.
func (l *Ledger) longestLease() time.Duration {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var limit, lease time.Duration
	for _, k := range l.kinds {
		limit, lease = max(limit, k.Policy.Limit), max(lease, k.Policy.LeaseTime)
	}
	return limit + lease
}
