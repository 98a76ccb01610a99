package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Replace is Enqueue for producers who changed their mind: where a key is taken by
// another body and no attempt of it has begun, the job gets the request's body, due
// time and deadline in place of its own. Where one has begun the request is refused
// as a conflict.
func (l *Ledger) Replace(ctx context.Context, tx pgx.Tx, specs []job.Spec) ([]machine.Enqueued, error) {
	all, err := l.Enqueue(ctx, tx, specs)
	if err != nil {
		return nil, err
	}
	var conflicts []int
	var targets []target
	for i, e := range all {
		if errors.Is(e.Refused, job.ErrConflict) && e.State == "" {
			conflicts = append(conflicts, i)
			targets = append(targets, target{Job: e.Job, Generation: 1})
		}
	}
	if len(conflicts) == 0 {
		return all, nil
	}
	locked, now, err := l.lock(ctx, tx, stmt("decide_lock"), targets)
	if err != nil {
		return nil, fmt.Errorf("replacing %d jobs: %w", len(conflicts), err)
	}
	w, batch := newWriter(now), &pgx.Batch{}
	for _, i := range conflicts {
		l.replace(specs[i], &all[i], locked, w, batch)
	}
	if err := l.write(ctx, tx, w); err != nil {
		return nil, fmt.Errorf("replacing %d jobs: %w", len(conflicts), err)
	}
	if err := storeBodies(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("replacing %d jobs: %w", len(conflicts), err)
	}
	return all, nil
}

// replace decides one replacement and gathers what it writes.
func (l *Ledger) replace(s job.Spec, e *machine.Enqueued, locked map[rowID]machine.Row, w *writer, batch *pgx.Batch) {
	at := rowID{e.Job, 1}
	row, ok := locked[at]
	if !ok {
		return // it was removed since: the conflict stands
	}
	if !s.Deadline.IsZero() && !s.Deadline.After(w.now) {
		e.Refused = refuseLate(s)
		return
	}
	after, change := machine.Replace(row, s.Due, s.Deadline, w.now)
	if change.Refused != machine.Applied {
		e.Refused = job.Refuse("key", s.Key, job.RuleConflict, "an attempt has begun")
		return
	}
	w.add(row, after, change, target{})
	locked[at] = after
	*e = machine.Enqueued{Job: e.Job, Replaced: true}
	batch.Queue(stmt("replace_body"), at.job, uuid(job.KeyHash(s.Kind, s.Key)), uuid(s.BodyHash()),
		orNull(s.Destination), s.Payload, orNull(s.Subject), orNull(s.Period), orNull(s.DeadlineZone), orNull(s.DeadlineLocal),
		orNull(s.TraceParent), after.Due, null(after.Deadline), null(after.ExpiresAt()))
}

func storeBodies(ctx context.Context, tx pgx.Tx, batch *pgx.Batch) error {
	n := batch.Len()
	results := tx.SendBatch(ctx, batch)
	for range n {
		tag, err := results.Exec()
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("a locked row was gone")
		}
		if err != nil {
			return errors.Join(err, results.Close())
		}
	}
	return results.Close()
}
