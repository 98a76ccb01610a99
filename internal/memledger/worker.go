package memledger

import (
	"context"
	"fmt"
	"time"

	"duly.dev/duly/internal/machine"
)

// worker is a worker's row, on which its leases hang.
type worker struct {
	machine.Worker
	beats int64
	// ended, and drained: when no lease of it was left.
	ended, drained time.Time
}

// alive reports whether the worker's row is there and was not ended.
func (l *Ledger) alive(id string) bool {
	w := l.workers[id]
	return w != nil && w.ended.IsZero()
}

// RegisterWorker writes the row that the worker's leases hang on. An id registers once.
func (l *Ledger) RegisterWorker(ctx context.Context, w machine.Worker) error {
	return l.write(ctx, "RegisterWorker", func(time.Time) error {
		if l.workers[w.ID] != nil {
			return fmt.Errorf("registering the worker: the id %s was registered before", w.ID)
		}
		l.workers[w.ID] = &worker{Worker: w, beats: 1}
		return nil
	})
}

// Heartbeat renews the worker's row, and with it all of its leases, and returns
// what it holds. machine.ErrWorkerEnded: the row was ended.
func (l *Ledger) Heartbeat(ctx context.Context, workerID string) ([]machine.Attempt, error) {
	var held []machine.Attempt
	err := l.write(ctx, "Heartbeat", func(time.Time) error {
		if !l.alive(workerID) {
			return fmt.Errorf("renewing the leases: %w", machine.ErrWorkerEnded)
		}
		l.workers[workerID].beats++
		for _, g := range l.leased() {
			if g.row.Worker == workerID {
				held = append(held, machine.Attempt{Job: g.row.Job, Generation: g.row.Generation, Fence: g.row.Fence})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// EndWorker ends the worker's own row at the end of its drain.
func (l *Ledger) EndWorker(ctx context.Context, workerID string) error {
	return l.write(ctx, "EndWorker", func(now time.Time) error {
		if l.alive(workerID) {
			l.workers[workerID].ended = now
		}
		return nil
	})
}

// Reject is a bus message that nobody understood.
type Reject struct {
	Source, SourceID string
	Body             []byte
	Error            string
}

// Reject keeps a bus message that nobody understands; a copy of it is kept once.
func (l *Ledger) Reject(ctx context.Context, source, sourceID string, body []byte, cause error) error {
	return l.write(ctx, "Reject", func(time.Time) error {
		for _, r := range l.rejects {
			if r.Source == source && r.SourceID == sourceID {
				return nil
			}
		}
		l.rejects = append(l.rejects, Reject{source, sourceID, body, fmt.Sprint(cause)})
		return nil
	})
}
