package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A worker's batch holds the jobs of many producers. One of them may have a
// transaction open that has cancelled or replaced a job, for as long as it likes. Its
// row is passed over then, so that the others need not wait.

// rowPatience, in milliseconds, is how long a batch waits for a row that is locked,
// before it is decided row by row without those that are.
const rowPatience = "250"

// takenByOthers tells the rows that were not decided about, since somebody has locked
// them, from those that are not there.
func (l *Ledger) takenByOthers(ctx context.Context, tx pgx.Tx, targets []target, decisions []decision) (map[rowID]bool, error) {
	var jobs []int64
	var generations []int32
	for i, d := range decisions {
		if !d.Found && !d.Foreign {
			jobs, generations = append(jobs, targets[i].Job), append(generations, targets[i].Generation)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, stmt("rows_there"), jobs, generations)
	if err != nil {
		return nil, fmt.Errorf("looking for %d rows: %w", len(jobs), err)
	}
	taken := make(map[rowID]bool)
	var id rowID
	_, err = pgx.ForEachRow(rows, []any{&id.job, &id.generation}, func() error { taken[id] = true; return nil })
	if err != nil {
		return nil, fmt.Errorf("looking for %d rows: %w", len(jobs), err)
	}
	return taken, nil
}
