package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// progress is the place of a loop that every scheduler shares: whoever has its row
// locked does the next stretch, and moves it in the same transaction.
type progress struct {
	instant time.Time
	id      int64
	now     time.Time // the ledger's clock when the turn was taken
}

// turn runs do with the loop's place, in a transaction, if it is nobody else's turn and
// the last one was at least every ago; it reports whether it was. do moves the place
// with move.
func (l *Ledger) turn(ctx context.Context, name string, every time.Duration, doing string, do func(pgx.Tx, progress) error) (bool, error) {
	mine := false
	err := l.inTx(ctx, doing, func(tx pgx.Tx) error {
		p, err := takeTurn(ctx, tx, name, every)
		if mine = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("taking the turn of %s: %w", name, err)
		}
		return do(tx, p)
	})
	return mine && err == nil, err
}

func takeTurn(ctx context.Context, tx pgx.Tx, name string, every time.Duration) (progress, error) {
	var p progress
	err := tx.QueryRow(ctx, stmt("progress_take"), name, every).Scan(&p.instant, &p.id, &p.now)
	if !errors.Is(err, pgx.ErrNoRows) {
		return p, err
	}
	tag, err := tx.Exec(ctx, stmt("progress_add"), name)
	if err != nil || tag.RowsAffected() == 0 {
		return p, errors.Join(err, pgx.ErrNoRows)
	}
	err = tx.QueryRow(ctx, stmt("progress_take"), name, -time.Second).Scan(&p.instant, &p.id, &p.now)
	return p, err
}

// ahead reports whether anything lies behind the loop's place, by its page statement with
// a page of one row, whose first column counts; args are what stands between the place
// and the number of rows. It locks and writes nothing: an idle ledger is left in peace.
func (l *Ledger) ahead(ctx context.Context, name, page string, args func(progress) []any) (bool, error) {
	var at progress
	err := l.pool.QueryRow(ctx, stmt("progress_read"), name).Scan(&at.instant, &at.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the place of %s: %w", name, err)
	}
	var rows int
	err = l.seek(ctx, l.pool, func(r pgx.BatchResults) error {
		found, err := r.Query()
		if err != nil {
			return err
		}
		rows, err = pgx.CollectExactlyOneRow(found, func(row pgx.CollectableRow) (int, error) {
			var n int
			return n, row.Scan(append([]any{&n}, make([]any, len(found.FieldDescriptions())-1)...)...)
		})
		return err
	}, stmt(page), args(at)...)
	if err != nil {
		return false, fmt.Errorf("looking behind the place of %s: %w", name, err)
	}
	return rows > 0, nil
}

func move(ctx context.Context, tx pgx.Tx, name string, instant time.Time, id int64) error {
	_, err := tx.Exec(ctx, stmt("progress_move"), name, instant, id)
	return wrapped(err, "moving the place of "+name)
}
