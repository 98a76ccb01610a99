package ledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// Statement is the text of a statement, for tests that look at its plan.
func (*Ledger) Statement(name string) string { return stmt(name) }

// Statements are the texts of all statements by name.
func (*Ledger) Statements() map[string]string { return statements }

// InSpan is the statement with two more arguments: the first and the last job of a batch
// whose jobs are close together.
func (*Ledger) InSpan(name string) string { return inSpan[name] }

// Row is a generation as decisions see it, for tests that hold a hot statement
// against machine.Next.
func (l *Ledger) Row(ctx context.Context, id int64, generation int32) (machine.Row, error) {
	found, err := l.pool.Query(ctx, stmt("decide_lock"), []int64{id}, []int32{generation})
	if err != nil {
		return machine.Row{}, err
	}
	rows, err := l.rowsOf(ctx, found)
	if err != nil || len(rows) == 0 {
		return machine.Row{}, errors.Join(err, pgx.ErrNoRows)
	}
	return rows[0], nil
}

// MaxConflicts is how often InTx tries.
const MaxConflicts = maxConflicts

// InTx is what every transaction that is not one statement runs in.
func (l *Ledger) InTx(ctx context.Context, doing string, do func(pgx.Tx) error) error {
	return l.inTx(ctx, doing, do)
}

// Run runs cleanups that were taken.
func (c *Cleaner) Run(ctx context.Context, tasks []machine.CleanupTask) ([]machine.CleanupOutcome, error) {
	return c.run(ctx, tasks)
}
