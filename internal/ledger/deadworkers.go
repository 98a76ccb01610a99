package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// Beats lists the workers that were not ended, with their counts of heartbeats. Who
// calls it decides by the change of a count, never by the instants of anybody's clock.
func (l *Ledger) Beats(ctx context.Context) ([]machine.Beat, error) {
	rows, err := l.pool.Query(ctx, stmt("workers_beat"))
	if err != nil {
		return nil, fmt.Errorf("reading the workers: %w", err)
	}
	beats, err := pgx.CollectRows(rows, pgx.RowToStructByPos[machine.Beat])
	if err != nil {
		return nil, fmt.Errorf("reading the workers: %w", err)
	}
	return beats, nil
}

// EndDead ends the row of a worker for good, unless it was heard of since: count is the
// count of heartbeats that was seen last. It reports whether it ended the row. The
// worker's leases are ended afterwards, with EndLeasesOf.
func (l *Ledger) EndDead(ctx context.Context, worker string, count int64) (bool, error) {
	var ended bool
	err := l.inTx(ctx, "ending worker "+worker, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stmt("worker_end"), worker, "sweep", count)
		ended = err == nil && tag.RowsAffected() == 1
		return err
	})
	return ended && err == nil, err
}

// Undrained lists the workers whose rows have ended, by themselves or by a sweep, and
// that Drained was not called for.
func (l *Ledger) Undrained(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, stmt("workers_undrained"))
	if err != nil {
		return nil, fmt.Errorf("reading the ended workers: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the ended workers: %w", err)
	}
	return ids, nil
}

// Drained notes that no lease of the ended worker was left, so that nobody looks again.
func (l *Ledger) Drained(ctx context.Context, worker string) error {
	return l.inTx(ctx, "noting that worker "+worker+" holds nothing", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, stmt("worker_drained"), worker)
		return err
	})
}
