package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Settle commits the ends of attempts and returns one Settled a report, in their
// order. It is idempotent: a report that was settled already, by a call whose reply
// was lost, is answered with where the generation stands. Late reports are kept as
// evidence. Reports of attempts that never began are hand-backs. ErrAway and
// ErrUnclear say that no report is to blame.
func (l *Ledger) Settle(ctx context.Context, w machine.Worker, reports []machine.Report) ([]machine.Settled, error) {
	doing := fmt.Sprintf("settling %d attempts", len(reports))
	if err := failpoint.At(failpoint.SettleCall); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, away(err))
	}
	order := make([]int, len(reports))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(reports[a].Job, reports[b].Job), cmp.Compare(reports[a].Generation, reports[b].Generation))
	})
	all := make([]machine.Settled, len(reports))
	rest, err := l.settleDone(ctx, w, reports, order, all)
	if err == nil && failpoint.Enabled {
		err = unclear(failpoint.At(failpoint.SettleBetween))
	}
	if err == nil {
		err = l.settleRest(ctx, w, reports, rest, all)
	}
	if err == nil && failpoint.Enabled {
		err = unclear(failpoint.At(failpoint.SettleReply))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, away(err))
	}
	return all, nil
}

// settleDone takes the hot path for what was delivered, and returns the indexes of
// the reports that it left.
func (l *Ledger) settleDone(ctx context.Context, w machine.Worker, reports []machine.Report, order []int, all []machine.Settled) (rest []int, err error) {
	var d delivered
	for _, i := range order {
		r := &reports[i]
		if r.Result.Outcome != job.OutcomeDelivered || r.Kind == nil || d.has(r) {
			rest = append(rest, i)
			continue
		}
		if err := d.add(i, r); err != nil {
			return nil, fmt.Errorf("job %d: %w", r.Job, err)
		}
	}
	if len(d.at) == 0 {
		return rest, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(keyedHurry, rowPatience)
	queueByKeys(batch, "settle_done", d.jobs, d.jobs, d.generations, d.fences, d.receipts, d.rules, w.ID, w.Version, d.classifiers, d.hashes)
	d.gates.queue(batch)
	results := l.pool.SendBatch(ctx, batch)
	if _, err = results.Exec(); err == nil {
		err = d.scan(results)
	}
	err = unclear(errors.Join(err, results.Close()))
	if err != nil && !inUse(err) { // where a row is in use nothing was settled: all are decided one by one
		return nil, err
	}
	for n, i := range d.at {
		if err != nil || !d.changed[n] {
			rest = append(rest, i)
			continue
		}
		all[i] = machine.Settled{Attempt: reports[i].Attempt, State: job.Delivered}
	}
	slices.Sort(rest)
	return rest, nil
}

// settleRest asks the machine about the reports at the indexes.
func (l *Ledger) settleRest(ctx context.Context, w machine.Worker, reports []machine.Report, rest []int, all []machine.Settled) error {
	if len(rest) == 0 {
		return nil
	}
	targets := make([]target, len(rest))
	for n, i := range rest {
		r := reports[i]
		targets[n] = target{
			Job: r.Job, Generation: r.Generation, Version: w.Version, Classifier: r.Classifier, Kind: r.Kind, Event: r.Event(w),
		}
	}
	return l.inTx(ctx, "deciding about the rest", func(tx pgx.Tx) error {
		decisions, _, err := l.decideFree(ctx, tx, targets)
		if err != nil {
			return err
		}
		taken, err := l.takenByOthers(ctx, tx, targets, decisions)
		if err != nil {
			return err
		}
		for n, d := range decisions {
			r := reports[rest[n]]
			all[rest[n]] = r.Settled(d.Row, d.Change)
			if taken[rowID{r.Job, r.Generation}] {
				all[rest[n]] = machine.Settled{Attempt: r.Attempt, Pending: true}
			}
		}
		return nil
	})
}

// HoldRefs puts what is ready at its reference's emission back to scheduled (held),
// for the given time by the ledger's clock: no fence, no attempt. What is not ready
// at that emission is left: its reference is stale. What has expired is ended. It waits
// for nobody: references of rows that somebody has locked are returned, to be held
// later.
func (l *Ledger) HoldRefs(ctx context.Context, refs []job.Ref, hold job.Hold, d time.Duration) (locked []job.Ref, err error) {
	if err := failpoint.At(failpoint.HoldCall); err != nil {
		return nil, err
	}
	doing := fmt.Sprintf("holding %d references (%s)", len(refs), hold)
	all := slices.SortedFunc(slices.Values(refs), job.Ref.Compare)
	err = l.inTx(ctx, doing, func(tx pgx.Tx) error {
		refs, taken, err := l.lockFree(ctx, tx, all)
		locked = taken
		if err != nil || len(refs) == 0 {
			return err
		}
		jobs, generations, emissions := columns(refs)
		held := make(map[rowID]bool)
		var id rowID
		batch := &pgx.Batch{}
		batch.Queue(stmt("keyed"))
		batch.Queue(stmt("hold_ready"), jobs, generations, emissions, string(hold), d).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&id.job, &id.generation}, func() error { held[id] = true; return nil })
			return err
		})
		batch.Queue(stmt("hot"))
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		var expired []target
		for _, r := range refs {
			if !held[rowID{r.Job, r.Generation}] {
				expired = append(expired, target{Job: r.Job, Generation: r.Generation, Event: machine.Event{Name: machine.Expire, Actor: "worker"}})
			}
		}
		if len(expired) == 0 {
			return nil
		}
		_, _, err = l.decide(ctx, tx, expired)
		return err
	})
	return locked, err
}
