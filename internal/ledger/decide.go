package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// target is an event for one generation.
type target struct {
	Job        int64
	Generation int32
	Event      machine.Event
	// Kind overrides the ledger's own where a worker decided under its own policy.
	Kind *machine.Kind
	// Version and Classifier are recorded with the event.
	Version, Classifier string
}

// decision is what became of a target. Found is false where there is no such row.
type decision struct {
	Found bool
	// Foreign: its row is there, and of another kind than the one that was to decide.
	Foreign bool

	Row    machine.Row // as stored
	Change machine.Change
}

// decide is the way of every event that no hot statement took: it locks the rows
// in order, reads the clock, asks the machine for each, and stores rows, events and
// outbox rows. Targets of one row are decided in the order given. It returns one
// decision a target and the instant that they were made at.
func (l *Ledger) decide(ctx context.Context, tx pgx.Tx, targets []target) ([]decision, time.Time, error) {
	return l.decideLocked(ctx, tx, stmt("decide_lock"), targets)
}

// decideFree is decide for sweeps: it waits for nobody, and leaves what another
// transaction has locked as if it were not there. Whoever has it changes it now, or
// leaves it to a later round.
func (l *Ledger) decideFree(ctx context.Context, tx pgx.Tx, targets []target) ([]decision, time.Time, error) {
	return l.decideLocked(ctx, tx, stmt("decide_lock_free"), targets)
}

func (l *Ledger) decideLocked(ctx context.Context, tx pgx.Tx, locking string, targets []target) ([]decision, time.Time, error) {
	locked, now, err := l.lock(ctx, tx, locking, targets)
	if err != nil {
		return nil, now, err
	}
	decisions := make([]decision, len(targets))
	w := newWriter(now)
	for i, t := range targets {
		at := rowID{t.Job, t.Generation}
		before, ok := locked[at]
		if !ok || (t.Kind != nil && t.Kind.Name != before.Kind.Name) {
			decisions[i].Foreign = ok // a policy of one kind never decides about a job of another
			continue
		}
		if t.Kind != nil {
			before.Kind = *t.Kind
		}
		after, change := machine.Next(before, t.Event, now)
		decisions[i] = decision{Found: true, Row: after, Change: change}
		if change.Refused == machine.Applied {
			w.add(before, after, change, t)
			locked[at] = after
		}
	}
	return decisions, now, l.write(ctx, tx, w)
}

type rowID struct {
	job        int64
	generation int32
}

// lock locks the targets' rows in order and reads the clock behind the locks, in
// one round trip.
func (l *Ledger) lock(ctx context.Context, tx pgx.Tx, locking string, targets []target) (map[rowID]machine.Row, time.Time, error) {
	ids, generations := make([]int64, len(targets)), make([]int32, len(targets))
	for i, t := range targets {
		ids[i], generations[i] = t.Job, t.Generation
	}
	var now time.Time
	locked := make(map[rowID]machine.Row, len(targets))
	batch := &pgx.Batch{}
	batch.Queue(locking, ids, generations)
	batch.Queue(stmt("clock"))
	results := tx.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err != nil {
		return nil, now, errors.Join(fmt.Errorf("locking %d rows: %w", len(targets), err), results.Close())
	}
	raw, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (stored, error) {
		var s stored
		return s, r.Scan(s.scanInto()...)
	})
	if err == nil {
		err = results.QueryRow().Scan(&now)
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return nil, now, fmt.Errorf("locking %d rows: %w", len(targets), err)
	}
	for _, s := range raw {
		r, err := l.row(ctx, s)
		if err != nil {
			return nil, now, err
		}
		locked[rowID{s.ID, s.Generation}] = r
	}
	return locked, now, nil
}
