package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// maxConflicts bounds how often a transaction is repeated after a deadlock or a
// serialization failure.
const maxConflicts = 5

// inTx runs do in a transaction that commits durably. A deadlock or serialization
// failure is repeated, since nothing of it was committed; a COMMIT whose reply was
// lost is never repeated: its error says ErrUnclear, and the caller reads back. What
// follows a lock sees what was committed before it, whatever the server's default is.
func (l *Ledger) inTx(ctx context.Context, doing string, do func(pgx.Tx) error) error {
	for n := 1; ; n++ {
		err := l.once(ctx, do)
		if err == nil {
			return nil
		}
		if n >= maxConflicts || !conflict(err) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
}

func (l *Ledger) once(ctx context.Context, do func(pgx.Tx) error) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN ISOLATION LEVEL READ COMMITTED; " + stmt("hot") + "; " + stmt("bounded")})
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer func() {
		// After a commit this does nothing; otherwise the error that matters is do's.
		_ = tx.Rollback(context.WithoutCancel(ctx))
	}()
	if err := do(tx); err != nil {
		return err
	}
	return commit(ctx, tx)
}

// commit commits, and says so where nobody can know whether it did.
func commit(ctx context.Context, tx pgx.Tx) error {
	if err := failpoint.At(failpoint.CommitCall); err != nil {
		return err
	}
	err := tx.Commit(ctx)
	if err == nil {
		err = failpoint.At(failpoint.CommitReply)
	}
	if err == nil {
		return nil
	}
	var answered *pgconn.PgError
	if errors.As(err, &answered) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return fmt.Errorf("committing: %w", err)
	}
	return fmt.Errorf("committing: %w: %w", machine.ErrUnclear, err)
}

// conflict reports whether the server rolled the transaction back because of
// another one, so that repeating it is both safe and promising.
func conflict(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	return pg.Code == "40P01" || pg.Code == "40001"
}

// unclear marks an error of a one-statement transaction after which nobody knows
// whether it committed: the server did not answer.
func unclear(err error) error {
	var answered *pgconn.PgError
	// "conn closed" is said to be safe, and comes also where a reply was lost.
	safe := pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
	if err == nil || errors.As(err, &answered) || safe {
		return err
	}
	return fmt.Errorf("%w: %w", machine.ErrUnclear, err)
}

// seek runs one statement that looks rows up, whatever the planner believes about
// the sizes of tables, in one round trip; read takes its result.
func (l *Ledger) seek(ctx context.Context, db Batcher, read func(pgx.BatchResults) error, sql string, args ...any) error {
	batch := &pgx.Batch{}
	batch.Queue(stmt("seek"))
	batch.Queue(sql, args...)
	results := db.SendBatch(ctx, batch)
	_, err := results.Exec()
	if err == nil {
		err = read(results)
	}
	return errors.Join(err, results.Close())
}

// wrapped says what was being done when err happened; nil stays nil.
func wrapped(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
