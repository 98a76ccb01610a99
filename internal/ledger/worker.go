package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// RegisterWorker writes the row that the worker's leases hang on.
func (l *Ledger) RegisterWorker(ctx context.Context, w machine.Worker) error {
	if err := failpoint.At(failpoint.RegisterCall); err != nil {
		return err
	}
	return l.inTx(ctx, "registering the worker", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, stmt("worker_register"), w.ID, w.Label, w.Version, w.LeaseTime)
		return err
	})
}

// Heartbeat renews the worker's row, and with it all of its leases. It returns what
// the worker holds, as the ledger says, out of lease calls whose reply was lost;
// machine.ErrWorkerEnded when the row was ended.
func (l *Ledger) Heartbeat(ctx context.Context, workerID string) ([]machine.Attempt, error) {
	if err := failpoint.At(failpoint.HeartbeatCall); err != nil {
		return nil, err
	}
	err := l.inTx(ctx, "renewing the leases", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stmt("worker_heartbeat"), workerID)
		if err == nil && tag.RowsAffected() == 0 {
			return machine.ErrWorkerEnded
		}
		return err
	})
	if err == nil {
		err = failpoint.At(failpoint.HeartbeatReply)
	}
	if err != nil {
		return nil, err
	}
	return l.heldAmong(ctx, workerID, l.unclear.of(workerID))
}

// heldAmong names the leases that the worker holds among the references.
func (l *Ledger) heldAmong(ctx context.Context, workerID string, refs []job.Ref) ([]machine.Attempt, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	grants, err := l.LeasedBy(ctx, workerID, refs)
	if err != nil {
		return nil, err
	}
	held := make([]machine.Attempt, len(grants))
	for i, g := range grants {
		held[i] = machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence}
	}
	return held, nil
}

// EndWorker ends the worker's own row at the end of its drain. What it still holds
// then is ended by the sweep.
func (l *Ledger) EndWorker(ctx context.Context, workerID string) error {
	return l.inTx(ctx, "ending the worker", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, stmt("worker_end"), workerID, "itself", nil)
		return err
	})
}

// Reject keeps a bus message that nobody understands; a copy of it is kept once.
func (l *Ledger) Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error {
	return l.inTx(ctx, "setting a message aside", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, stmt("reject_put"), source, job.Storable(sourceID, job.MaxDetail), job.Storable(fmt.Sprint(cause), job.MaxDetail), body)
		return err
	})
}
