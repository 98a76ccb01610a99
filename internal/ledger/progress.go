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

func move(ctx context.Context, tx pgx.Tx, name string, instant time.Time, id int64) error {
	_, err := tx.Exec(ctx, stmt("progress_move"), name, instant, id)
	return wrapped(err, "moving the place of "+name)
}
