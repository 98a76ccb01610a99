package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/pkg/job"
)

// Tally counts the jobs in each state, by their current generation, from one snapshot.
// It reads every job row: it is for demonstrations, benchmarks and checks.
func (l *Ledger) Tally(ctx context.Context) (map[job.State]int, error) {
	rows, err := l.pool.Query(ctx, stmt("tally"))
	if err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	tally := make(map[job.State]int)
	var state job.State
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error { tally[state] = n; return nil }); err != nil {
		return nil, fmt.Errorf("counting jobs: %w", err)
	}
	return tally, nil
}
