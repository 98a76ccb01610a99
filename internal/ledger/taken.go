package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/pkg/job"
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

// lockFree locks the rows of the references, in their order, without those that somebody
// has locked. It returns the references of both; of the others there is no row.
func (l *Ledger) lockFree(ctx context.Context, tx pgx.Tx, refs []job.Ref) (free, taken []job.Ref, err error) {
	targets := make([]target, len(refs))
	for i, r := range refs {
		targets[i] = target{Job: r.Job, Generation: r.Generation}
	}
	rows, _, err := l.lock(ctx, tx, stmt("decide_lock_free"), targets)
	if err != nil {
		return nil, nil, err
	}
	found := make([]decision, len(refs))
	for i, r := range refs {
		_, found[i].Found = rows[rowID{r.Job, r.Generation}]
	}
	others, err := l.takenByOthers(ctx, tx, targets, found)
	if err != nil {
		return nil, nil, err
	}
	for i, r := range refs {
		switch {
		case found[i].Found:
			free = append(free, r)
		case others[rowID{r.Job, r.Generation}]:
			taken = append(taken, r)
		}
	}
	return free, taken, nil
}
