package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Promote looks at the next due generations behind the position, at most limit (which
// is at most MaxPromotion), and promotes them. Several may call it at once: each takes
// what no other has locked. What another has locked is left behind the position; a
// later look from the front finds it, where that did not promote it.
func (l *Ledger) Promote(ctx context.Context, from machine.Position, limit int) (machine.Promotion, error) {
	limit = min(limit, MaxPromotion)
	p := machine.Promotion{Promoted: make(map[job.Waiting]int), Ended: make(machine.Tally), Next: from}
	rest, err := l.promotePage(ctx, limit, &p)
	if err != nil {
		return p, fmt.Errorf("promoting up to %d generations: %w", limit, err)
	}
	if len(rest) > 0 {
		err = l.promoteRest(ctx, rest, &p)
	}
	return p, err
}

// MaxPromotion is the most generations of one transaction: they share an outbox row.
const MaxPromotion = maxOutboxRefs

// promotePage is the hot path: one statement in a transaction of its own. It returns
// what the machine decides about.
func (l *Ledger) promotePage(ctx context.Context, limit int, p *machine.Promotion) ([]target, error) {
	if err := failpoint.At(failpoint.PromoteCall); err != nil {
		return nil, err
	}
	kinds, ages, lifetimes, hashes := l.bounds()
	batch := &pgx.Batch{}
	batch.Queue(stmt("hot"))
	batch.Queue(stmt("promote_page"), p.Next.At, p.Next.Job, limit, kinds, ages, lifetimes, hashes)
	results := l.pool.SendBatch(ctx, batch)
	var (
		now              time.Time
		rows             int
		at, oldest       *time.Time
		id               *int64
		jobs             []int64
		generations      []int32
		due, retry, held int
	)
	_, err := results.Exec()
	if err == nil {
		err = results.QueryRow().Scan(&now, &rows, &at, &id, &jobs, &generations, &oldest, &due, &retry, &held)
	}
	if err = errors.Join(err, results.Close()); err == nil {
		err = failpoint.At(failpoint.PromoteReply)
	}
	if err != nil {
		return nil, err
	}
	for waiting, n := range map[job.Waiting]int{job.WaitingDue: due, job.WaitingRetry: retry, job.WaitingHeld: held} {
		if n > 0 {
			p.Promoted[waiting] = n
		}
	}
	if oldest != nil {
		p.Delay = now.Sub(*oldest)
	}
	if p.More = rows == limit; rows > 0 {
		p.Next = machine.Position{At: *at, Job: *id}
	}
	rest := make([]target, len(jobs))
	for i := range jobs {
		rest[i] = target{Job: jobs[i], Generation: generations[i], Event: machine.Event{Name: machine.Due, Actor: "scheduler"}}
	}
	return rest, nil
}

// bounds are the kinds' policies as far as a generation that becomes ready needs them.
func (l *Ledger) bounds() (kinds []int16, ages, lifetimes []time.Duration, hashes []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for id, k := range l.kinds {
		kinds, hashes = append(kinds, id), append(hashes, k.Hash())
		ages, lifetimes = append(ages, k.Policy.MaxAge), append(lifetimes, k.Policy.MaxLifetime)
	}
	return kinds, ages, lifetimes, hashes
}

// promoteRest asks the machine about what was not plain: expired, in doubt, or of a
// kind that is new.
func (l *Ledger) promoteRest(ctx context.Context, rest []target, p *machine.Promotion) error {
	var decisions []decision
	err := l.inTx(ctx, fmt.Sprintf("deciding about %d due generations", len(rest)), func(tx pgx.Tx) (err error) {
		decisions, _, err = l.decideFree(ctx, tx, rest)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range decisions {
		switch {
		case !d.Found || d.Change.Refused != machine.Applied:
		case d.Row.State == job.Ready:
			p.Promoted[job.Waiting(d.Change.Record.Why)]++
		default:
			p.Ended.Add(d.Row)
		}
	}
	return nil
}
