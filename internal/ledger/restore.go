package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CheckRestored looks whether the ledger was moved to another cluster by a dump and
// restore, or by an upgrade, and if so makes its cursors begin anew; it reports
// whether it did. Dispatchers and schedulers call it at their start and now and then.
//
// The cursors are snapshots, and those of another cluster mean nothing here: with
// them the relay would wait for transaction ids that lie far ahead, or skip those
// that are written now. So, in one transaction, marks are dropped, every row of the
// outbox that a job may still wait for is written anew under this transaction, and
// every cursor is set to a snapshot that was taken before it. What is announced
// twice by this is harmless.
func (l *Ledger) CheckRestored(ctx context.Context) (bool, error) {
	var restored bool
	if err := l.pool.QueryRow(ctx, stmt("restored")).Scan(&restored); err != nil || !restored {
		return false, wrapped(err, "comparing the ledger's cluster")
	}
	err := l.inTx(ctx, "setting the cursors after a restore", func(tx pgx.Tx) error {
		var before string
		if err := tx.QueryRow(ctx, stmt("outbox_now")).Scan(&before); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, stmt("restored_lock")); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, stmt("restored")).Scan(&restored); err != nil || !restored {
			return err
		}
		return restart(ctx, tx, before)
	})
	return restored && err == nil, err
}

// restart makes every cursor begin behind the snapshot, which saw nothing of the
// transaction.
func restart(ctx context.Context, tx pgx.Tx, before string) error {
	for _, step := range []struct {
		name string
		args []any
	}{
		{"cursors_lock", nil},
		{"judges_lock", nil},
		{"restore_outbox", nil},
		{"restore_topics", []any{before}},
		{"restore_judges", []any{before}},
		{"restore_marks", nil},
		{"restore_passed", nil},
		{"restore_unsendable", nil},
		{"restored_done", nil},
	} {
		if _, err := tx.Exec(ctx, stmt(step.name), step.args...); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}
