package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"duly.dev/duly/pkg/job"
)

// removal is a job to remove and the hash of its key.
type removal struct {
	job  int64
	hash job.Hash
}

// removeJobs removes jobs whose retention is over and returns how many. Their keys stay,
// and say how they ended; their events leave with the partitions.
func removeJobs(ctx context.Context, tx pgx.Tx, all []removal, retention time.Duration) (int, error) {
	if len(all) == 0 {
		return 0, nil
	}
	jobs, hashes := make([]int64, len(all)), make([]pgtype.UUID, len(all))
	for i, r := range all {
		jobs[i], hashes[i] = r.job, uuid(r.hash)
	}
	var n int
	err := tx.QueryRow(ctx, stmt("remove_jobs"), jobs, hashes, retention).Scan(&n)
	return n, wrapped(err, fmt.Sprintf("removing %d old jobs", len(all)))
}

// RemoveWorkers removes the rows of workers that have held nothing for so long, and
// returns how many.
func (l *Ledger) RemoveWorkers(ctx context.Context, after time.Duration) (int, error) {
	var n int
	err := l.inTx(ctx, "removing old workers", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stmt("remove_workers"), after)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}
