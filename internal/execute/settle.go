package execute

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// Settler commits the ends of attempts.
type Settler interface {
	// Settle commits a batch of reports of one worker, hand-backs among them, and
	// returns one Settled a report, in their order; one that is Pending is to be sent
	// again. A call that fails may have committed
	// some of them; it is idempotent: what the same fence has settled counts as settled.
	// machine.ErrAway and machine.ErrUnclear say that no report is to blame.
	Settle(ctx context.Context, w machine.Worker, reports []machine.Report) ([]machine.Settled, error)
}

// maxBatch is the most that one call of the ledger leases or settles. More of them in a
// call cost the ledger as much each, and let all wait for the last.
const maxBatch = 400

// ending is the end of an attempt on its way into the ledger.
type ending struct {
	session *session
	id      machine.Attempt
	result  job.Result
	// attempt is nil for the hand-back of a stranger.
	attempt *attempt
	// claim is nil where nobody waits: for a stranger, or the second report of an
	// attempt that was reported as overdue.
	claim *claim
	// again: it was sent before, and a late answer may speak of that.
	again bool
	// strikes counts how often it failed alone while others were settled.
	strikes int
}

// report is the ending as the ledger takes it.
func (e *ending) report() machine.Report {
	r := machine.Report{Attempt: e.id, Result: e.result}
	if a := e.attempt; a != nil {
		r.Classifier, r.Kind = a.kind.Classifier, &a.grant.Row.Kind
	}
	return r
}

// maxStrikes is how often a report may fail alone before it is given up. Its lease
// then ends by itself, as unknown.
const maxStrikes = 5

// settling is the loop that commits reports: natural batching, no linger.
type settling struct {
	worker  *Worker
	reports *reports

	// locked are reports whose rows somebody has locked, to be sent again then; those
	// behind them do not wait. Only run touches them.
	locked      []*ending
	lockedUntil time.Time
}

// lockedFor is how long a report, or a hold, waits whose row somebody has locked.
const lockedFor = 500 * time.Millisecond

func newSettling(w *Worker, capacity int) *settling {
	return &settling{worker: w, reports: newReports(capacity)}
}

// report queues the end of an attempt. Only the first counts, except that a success
// is reported even after the attempt was given up as overdue.
func (w *Worker) report(a *attempt, r job.Result) {
	if e := a.ended(r); e != nil {
		w.settling.reports.put(e)
	}
}

// ended is what is to be reported of the end of an attempt; nil where that was said before.
func (a *attempt) ended(r job.Result) *ending {
	switch {
	case a.reported.CompareAndSwap(false, true):
		a.end = ending{session: a.session, id: a.id, result: r, attempt: a, claim: a.claim}
		return &a.end
	case r.Outcome == job.OutcomeDelivered:
		return &ending{session: a.session, id: a.id, result: r, attempt: a}
	}
	return nil
}

// handBack queues the hand-back of fences that nobody here runs.
func (w *Worker) handBack(s *session, ids []machine.Attempt) {
	all := make([]*ending, len(ids))
	for i, id := range ids {
		all[i] = &ending{session: s, id: id, result: job.NotBegun("held in the ledger, unknown to its worker")}
	}
	w.settling.reports.put(all...)
}

// run settles until no more reports come and everything is committed, or ctx ends.
func (s *settling) run(ctx context.Context) {
	var failed []*ending
	var trouble bool
	var wait pause.Backoff
	for {
		batch := s.collect(ctx, failed, trouble, &wait)
		if len(batch) == 0 || ctx.Err() != nil {
			return
		}
		if failed, trouble = s.round(ctx, batch); len(failed) == 0 {
			wait.Reset()
		}
	}
}

// collect returns what failed before and what is there now. If that is nothing new,
// it waits: for a report, or for the next try of what failed; in trouble for the
// latter alone. It returns nothing when nothing is to come any more, or ctx ended.
func (s *settling) collect(ctx context.Context, batch []*ending, trouble bool, wait *pause.Backoff) []*ending {
	var again <-chan time.Time
	arrived, finished := s.reports.arrived, s.reports.finished
	if len(batch) > 0 || len(s.locked) > 0 {
		timer := time.NewTimer(s.nextTry(batch, wait))
		defer timer.Stop()
		again, finished = timer.C, nil
	}
	if trouble {
		arrived = nil
	}
	for waiting := true; ; {
		select {
		case <-arrived: // or they were taken before
		case <-again:
			waiting = false
		case <-finished:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
		if len(s.locked) > 0 && !time.Now().Before(s.lockedUntil) {
			batch, s.locked = append(batch, s.locked...), nil
		}
		before := len(batch)
		if batch = s.reports.take(batch, maxBatch); len(batch) > before || !waiting {
			return batch
		}
	}
}

// nextTry is when what failed, or what was locked, is sent again.
func (s *settling) nextTry(failed []*ending, wait *pause.Backoff) time.Duration {
	unlocked := max(time.Until(s.lockedUntil), 0)
	switch {
	case len(failed) == 0:
		return unlocked
	case len(s.locked) == 0:
		return wait.Next()
	}
	return min(wait.Next(), unlocked)
}

// putAside keeps reports whose rows somebody has locked.
func (s *settling) putAside(locked []*ending) {
	if len(locked) == 0 {
		return
	}
	for _, e := range locked {
		e.again = true
	}
	s.locked, s.lockedUntil = append(s.locked, locked...), time.Now().Add(lockedFor)
}

// round tries to settle the batch and returns what could not be settled. A part that
// fails is halved until the bad report stands alone; that is tried once more
// without what the receiver said. Two failures of single reports in a row, or a call
// that nobody answered, speak of trouble with the ledger and end the round. A report
// that failed alone before another was settled gets a strike.
func (s *settling) round(ctx context.Context, batch []*ending) (failed []*ending, trouble bool) {
	parts := split(batch)
	alone, struck := 0, 0
	for len(parts) > 0 {
		part := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		pending, err := s.try(ctx, part)
		if err != nil && len(part) == 1 && !isTrouble(err) {
			err = s.tryBare(ctx, part[0], err)
		}
		s.putAside(pending)
		switch {
		case err == nil:
			for ; struck < len(failed); struck++ {
				failed[struck].strikes++
			}
			alone = 0
			continue
		case len(part) > 1 && !isTrouble(err):
			parts = append(parts, part[len(part)/2:], part[:len(part)/2])
			continue
		}
		failed = append(failed, part...)
		if alone++; alone < 2 && !isTrouble(err) {
			continue
		}
		s.worker.log.WarnContext(ctx, "cannot settle, trying again", "reports", len(batch), "error", err)
		for _, rest := range parts {
			failed = append(failed, rest...)
		}
		parts, trouble = nil, true
	}
	for _, e := range failed {
		e.again = true
	}
	return slices.DeleteFunc(failed, func(e *ending) bool { return e.strikes >= maxStrikes && s.giveUp(ctx, e) }), trouble
}

// split cuts a batch into parts of one session, sorted by job, without two reports
// of one attempt in a part. Usually that is one part.
func split(batch []*ending) [][]*ending {
	slices.SortStableFunc(batch, func(a, b *ending) int {
		if a.session != b.session {
			return cmp.Compare(a.session.worker.ID, b.session.worker.ID)
		}
		return cmp.Or(cmp.Compare(a.id.Job, b.id.Job), cmp.Compare(a.id.Generation, b.id.Generation))
	})
	var parts [][]*ending
	from := 0
	for i := 1; i <= len(batch); i++ {
		if i < len(batch) && batch[i].session == batch[from].session && batch[i].id != batch[i-1].id {
			continue
		}
		parts = append(parts, slices.Clip(batch[from:i]))
		from = i
	}
	slices.Reverse(parts) // the last is tried first
	return parts
}

// isTrouble reports whether the error speaks of the ledger or the way to it, not of
// a report.
func isTrouble(err error) bool {
	return errors.Is(err, machine.ErrAway) || errors.Is(err, machine.ErrUnclear) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// try settles a part in one call and, once that is committed, all that waits for it. It
// returns those whose rows somebody has locked.
func (s *settling) try(ctx context.Context, part []*ending) (pending []*ending, err error) {
	reports := make([]machine.Report, len(part))
	for i, e := range part {
		reports[i] = e.report()
	}
	ctx, cancel := context.WithTimeout(ctx, s.worker.callLimit())
	defer cancel()
	settled, err := s.worker.o.Ledger.Settle(ctx, part[0].session.worker, reports)
	if err != nil {
		return nil, err
	}
	done, ends := make([]*ending, 0, len(part)), settled[:0]
	for i, e := range part {
		if settled[i].Pending {
			pending = append(pending, e)
			continue
		}
		done, ends = append(done, e), append(ends, settled[i])
	}
	if len(done) > 0 {
		s.committed(ctx, done, ends)
	}
	return pending, nil
}

// errLocked: a report that failed alone met a row that somebody has locked.
var errLocked = errors.New("its row is locked by somebody else")

// tryBare settles a report that failed alone, without what the receiver said: the
// outcome matters more than its words.
func (s *settling) tryBare(ctx context.Context, e *ending, cause error) error {
	bare := *e
	r := &bare.result
	r.Receipt, r.Detail = nil, "what the receiver said could not be stored"
	if !r.Code.Known() {
		r.Code = job.CodeOther
	}
	pending, err := s.try(ctx, []*ending{&bare})
	switch {
	case err != nil:
		return err
	case len(pending) > 0:
		return errLocked
	}
	s.worker.log.LogAttrs(ctx, slog.LevelError, "a result was settled without its details, which could not be stored", append(bare.logAttrs(), slog.Any("error", cause))...)
	return nil
}

// giveUp leaves a report that cannot be settled: its lease ends by itself.
func (s *settling) giveUp(ctx context.Context, e *ending) bool {
	s.worker.log.LogAttrs(ctx, slog.LevelError, "a result cannot be settled and is given up; its lease will end as unknown", e.logAttrs()...)
	s.worker.metrics.givenUp.Inc()
	e.session.givenUp(e.id)
	e.claim.left()
	s.reports.committed(1)
	return true
}

// committed does what waits for the commit: it forgets the attempts, closes the
// messages, counts and logs.
func (s *settling) committed(ctx context.Context, part []*ending, settled []machine.Settled) {
	failpoint.Pass(failpoint.WorkerSettled)
	s.worker.metrics.settleBatch.Observe(float64(len(part)))
	ids := make([]machine.Attempt, len(part))
	for i, e := range part {
		ids[i] = e.id
		e.claim.settled()
		if settled[i].Late && !e.again {
			s.worker.metrics.late.WithLabelValues(string(e.result.Outcome)).Inc()
		}
		if settled[i].Duplicate && e.attempt != nil {
			s.worker.metrics.duplicates.WithLabelValues(e.attempt.kind.Name).Inc()
		}
		s.worker.logEnd(ctx, e, settled[i])
	}
	part[0].session.settled(ids)
	s.worker.metrics.count(part)
	s.reports.committed(len(part))
}

// logEnd logs what is worth a line: everything but a plain delivery.
func (w *Worker) logEnd(ctx context.Context, e *ending, now machine.Settled) {
	level, r := slog.LevelInfo, &e.result
	switch {
	case r.Outcome == job.OutcomeDelivered && !now.Late:
		level = slog.LevelDebug
	case r.Outcome == job.OutcomeUnknown || now.Duplicate:
		level = slog.LevelWarn
	}
	if !w.log.Enabled(ctx, level) {
		return
	}
	attrs := append(e.logAttrs(), slog.String("outcome", string(r.Outcome)), slog.String("state", string(now.State)), slog.Bool("late", now.Late), slog.Bool("duplicate", now.Duplicate))
	if r.Outcome != job.OutcomeDelivered {
		attrs = append(attrs, slog.String("class", string(r.Class)), slog.String("code", string(r.Code)))
	}
	if !now.WakeAt.IsZero() {
		attrs = append(attrs, slog.Time("wake_at", now.WakeAt))
	}
	w.log.LogAttrs(ctx, level, "an attempt ended", attrs...)
}

func (e *ending) logAttrs() []slog.Attr {
	if e.attempt != nil {
		return e.attempt.logAttrs()
	}
	return []slog.Attr{slog.Int64("job", e.id.Job), slog.Int("generation", int(e.id.Generation)), slog.Int64("fence", e.id.Fence)}
}
