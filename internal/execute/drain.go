package execute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"duly.dev/duly/internal/failpoint"
)

// ErrLeftOver: the worker stopped although something was not committed. Nothing is
// lost: the ledger ends what it still holds, as unknown.
var ErrLeftOver = errors.New("stopped with attempts that were not committed")

// drain waits until end for what is in hand, has every report committed, and ends
// the worker's row. A shutdown burns no attempt: what did not begin is handed back,
// what runs may end.
func (w *Worker) drain(end time.Time, settling *sync.WaitGroup) error {
	idle, cancel := context.WithDeadline(w.work, end)
	defer cancel()
	overdue := false
	for _, l := range w.lanes {
		overdue = l.slots.idle(idle) != nil || overdue
	}
	if overdue {
		w.cut()
	}
	w.settling.reports.finish()
	if !waitFor(settling, settleGrace) {
		return fmt.Errorf("%w: the ledger did not take %d reports", ErrLeftOver, w.settling.reports.left())
	}
	return w.endRow()
}

// cut ends, at the end of the drain, what runs on: the process is about to end it
// anyway, and an end that is reported is better than one that is found out.
func (w *Worker) cut() {
	for _, s := range w.board.sessions() {
		for _, a := range s.running() {
			a.cancel()
		}
	}
	grace, cancel := context.WithTimeout(w.work, settleGrace/2)
	defer cancel()
	for _, l := range w.lanes {
		_ = l.slots.idle(grace) // what does not return is reported for it
	}
	var left []*attempt
	for _, s := range w.board.sessions() {
		for _, a := range s.running() {
			if !a.reported.Load() {
				w.log.LogAttrs(w.work, slog.LevelWarn, "an attempt did not end before the worker did", a.logAttrs()...)
				left = append(left, a)
			}
		}
	}
	var reports sync.WaitGroup
	reports.Go(func() { w.giveUp(left, "the worker stopped before the attempt ended") })
	waitFor(&reports, settleGrace/2)
}

// endRow ends the worker's own row, so that nobody has to find out.
func (w *Worker) endRow() error {
	failpoint.Pass(failpoint.WorkerDrained)
	w.board.mu.Lock()
	s := w.board.current
	w.board.mu.Unlock()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.work, settleGrace)
	defer cancel()
	// More than once: after a restart of the ledger the heart's one connection is broken,
	// and nobody has noticed.
	err := w.persist(ctx, "ending the worker's row", func(context.Context) error { return w.o.Heart.EndWorker(ctx, s.worker.ID) })
	if err != nil {
		return fmt.Errorf("ending the worker's row: %w", err)
	}
	return nil
}

// waitFor waits for the group for at most d, and reports whether it came to an end.
func waitFor(group *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
