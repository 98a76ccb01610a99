package ledger

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"duly.dev/duly/internal/machine"
)

// Heart keeps the rows of workers alive on a pool of its own, which the traffic of
// leases and results cannot exhaust. It shares with its ledger what that knows of
// lease calls whose reply was lost.
type Heart struct{ own, work *Ledger }

// Heart makes the heart of the ledger on a pool, one connection of which is enough;
// the pool stays the caller's to close.
func (l *Ledger) Heart(pool *pgxpool.Pool) *Heart { return &Heart{own: New(pool), work: l} }

// RegisterWorker is Ledger.RegisterWorker.
func (h *Heart) RegisterWorker(ctx context.Context, w machine.Worker) error {
	return h.own.RegisterWorker(ctx, w)
}

// Heartbeat is Ledger.Heartbeat.
func (h *Heart) Heartbeat(ctx context.Context, workerID string) ([]machine.Attempt, error) {
	if _, err := h.own.Heartbeat(ctx, workerID); err != nil {
		return nil, err
	}
	return h.own.heldAmong(ctx, workerID, h.work.unclear.of(workerID))
}

// EndWorker is Ledger.EndWorker.
func (h *Heart) EndWorker(ctx context.Context, workerID string) error {
	return h.own.EndWorker(ctx, workerID)
}
