package ledger

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/machine"
)

// GatelessCleanups are cleanups that are not done and that nobody does under these kinds:
// their kind has no gate there.
func (l *Ledger) GatelessCleanups(ctx context.Context, kinds []machine.Kind) ([]machine.WaitingCleanups, error) {
	rows, err := l.pool.Query(ctx, stmt("cleanup_waiting"))
	if err != nil {
		return nil, wrapped(err, "looking for cleanups without a gate")
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[machine.WaitingCleanups])
	gated := func(c machine.WaitingCleanups) bool {
		return slices.ContainsFunc(kinds, func(k machine.Kind) bool { return k.Name == c.Kind && k.Cleanup != nil })
	}
	return slices.DeleteFunc(all, gated), wrapped(err, "looking for cleanups without a gate")
}
