package execute

import (
	"context"
	"time"

	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

const (
	// watchEvery is how often the running attempts are looked at.
	watchEvery = time.Second
	// handlerMargin is how long before the end of its lease a Go handler's context ends,
	// so that it has time to stop.
	handlerMargin = 2*watchEvery + time.Second
)

// watch looks after what runs, until ctx ends.
func (w *Worker) watch(ctx context.Context) {
	for pause.For(ctx, watchEvery) {
		w.watchOnce(time.Now())
	}
}

// watchOnce ends Go handlers whose lease is about to end without a renewal, and
// reports attempts that do not return although their limit is over: nobody knows
// what they do.
func (w *Worker) watchOnce(now time.Time) {
	oldest := time.Duration(0)
	var overdue []*attempt
	for _, s := range w.board.sessions() {
		if left, _ := s.left(now); left <= min(handlerMargin, s.worker.LeaseTime/4) {
			s.cutHandlers()
		}
		for _, a := range s.running() {
			oldest = max(oldest, now.Sub(a.leaseSent))
			if a.phase.Load() == phaseResolving {
				continue // it has not begun, and the asking has bounds of its own
			}
			if now.Sub(a.ctx.until) > a.kind.Policy.PauseBound && !a.reported.Load() {
				w.metrics.overdue.Inc()
				overdue = append(overdue, a)
			}
		}
	}
	if len(overdue) > 0 {
		go w.giveUp(overdue, "the attempt did not return although its limit was over")
	}
	w.metrics.oldest.Set(oldest.Seconds())
}

// giveUp reports attempts that run on as unknown; their slots stay taken until they
// return. A success that one then brings is reported too. One whose destination is still
// asked for has not begun, and never will.
func (w *Worker) giveUp(attempts []*attempt, why string) {
	var all []*ending
	for _, a := range attempts {
		a.cancel()
		result := job.MayBeDone(job.CodeTimeout, why)
		if a.phase.CompareAndSwap(phaseResolving, phaseOver) {
			result = job.NotBegun(why)
		}
		if e := a.ended(result); e != nil {
			all = append(all, e)
		}
	}
	w.settling.reports.put(all...)
}
