package execute

import (
	"context"
	"errors"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

// Heart keeps the worker's row alive, on a connection of its own: the traffic of
// leases and results must not be able to delay it.
type Heart interface {
	// RegisterWorker writes the row that the worker's leases hang on.
	RegisterWorker(ctx context.Context, w machine.Worker) error
	// Heartbeat renews the row, and with it all leases; ErrWorkerEnded when the row was
	// ended. It returns what the worker may hold without knowing it: at least every
	// lease out of a call whose reply was lost.
	Heartbeat(ctx context.Context, workerID string) ([]machine.Attempt, error)
	// EndWorker ends the worker's own row.
	EndWorker(ctx context.Context, workerID string) error
}

// beat registers the process, renews its lease until the ledger ends it, and
// registers anew, until ctx ends.
func (w *Worker) beat(ctx context.Context) {
	for ctx.Err() == nil {
		s := w.register(ctx)
		if s == nil {
			return
		}
		w.renew(ctx, s)
	}
}

// instant is now, on both clocks.
func (w *Worker) instant() instant {
	now := time.Now()
	return instant{now, w.wall(now)}
}

// register writes a row under a new id, however often that takes. A try whose
// reply was lost leaves a row behind that the sweep ends.
func (w *Worker) register(ctx context.Context) *session {
	var wait pause.Backoff
	for ctx.Err() == nil {
		id := machine.Worker{ID: w.o.NewID(), Label: w.o.Label, Version: w.o.Version, LeaseTime: w.o.LeaseTime}
		sent := w.instant()
		err := w.call(func(ctx context.Context) error { return w.o.Heart.RegisterWorker(ctx, id) })
		if err == nil {
			w.log.InfoContext(ctx, "registered", "worker", id.ID, "label", id.Label, "version", id.Version)
			w.metrics.registrations.Inc()
			s := newSession(id, w.wall, sent)
			w.board.open(s)
			return s
		}
		w.log.WarnContext(ctx, "cannot register, trying again", "error", err)
		w.metrics.trouble.Inc()
		pause.For(ctx, wait.Next())
	}
	return nil
}

// renew renews the session until it is ended or ctx ends. After a failure it tries
// again sooner: a lease outlives several.
func (w *Worker) renew(ctx context.Context, s *session) {
	next := w.o.Heartbeat
	for {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.over:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
		next = w.o.Heartbeat
		if err := w.renewOnce(ctx, s); errors.Is(err, machine.ErrWorkerEnded) {
			w.endSession(s)
			return
		} else if err != nil {
			w.log.WarnContext(ctx, "cannot renew the lease, trying again", "worker", s.worker.ID, "error", err)
			w.metrics.trouble.Inc()
			next = w.o.Heartbeat / 5
		}
	}
}

// renewOnce renews the lease once and hands back what the ledger holds for this
// worker and nobody here runs.
func (w *Worker) renewOnce(ctx context.Context, s *session) error {
	sent := w.instant()
	bound, cancel := context.WithTimeout(w.work, w.o.Heartbeat)
	defer cancel()
	held, err := w.o.Heart.Heartbeat(bound, s.worker.ID)
	if err != nil {
		return err
	}
	s.renewed(sent)
	w.board.renewed()
	strangers := s.unknownHere(held)
	for _, id := range strangers {
		w.log.WarnContext(ctx, "handing back a lease that nobody here runs", "job", id.Job, "generation", id.Generation, "fence", id.Fence)
	}
	w.handBack(s, strangers)
	if w.o.healthy() {
		w.claimed()
	}
	return nil
}

// endSession drops everything that hangs on a session that the ledger has ended:
// what has not begun never will, Go handlers are ended, and the process registers
// anew. What has begun is reported all the same.
func (w *Worker) endSession(s *session) {
	if w.board.end(s) {
		w.log.Warn("the ledger has ended this worker; registering anew", "worker", s.worker.ID)
	}
}
