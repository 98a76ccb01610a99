package eval

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// three are the kinds whose receivers promise nothing, to dedupe, and to answer.
var three = []string{plain, deduped, askable}

// perKind is how many jobs of each kind a case has.
const perKind = 2

func crashAfterLease(ctx context.Context, w *world) (verify, error) {
	return loseWorker(ctx, w, afterLease, false)
}

func crashBeforeEffect(ctx context.Context, w *world) (verify, error) {
	return loseWorker(ctx, w, begun, false)
}

func crashAfterEffect(ctx context.Context, w *world) (verify, error) {
	return loseWorker(ctx, w, done, true)
}

// loseWorker ends a worker once all attempts have come to the point, and has another take
// its place. happened: the effects were there by then.
func loseWorker(ctx context.Context, w *world, at point, happened bool) (verify, error) {
	specs := w.each(perKind, three...)
	w.on(at, w.together(len(specs), (*proc).kill))
	if err := w.outlive(ctx, specs); err != nil {
		return nil, err
	}
	return func(a *account) {
		if happened {
			a.expect(plain, expectation{job.Unknown, 1, 1}, nil)
			a.expect(deduped, expectation{job.Delivered, 2, 2}, nil)
			a.expect(askable, expectation{job.Delivered, 1, 1}, nil)
			return
		}
		a.expect(plain, expectation{job.Unknown, 1, 0}, nil)
		a.expect(deduped, expectation{job.Delivered, 2, 1}, nil)
		a.expect(askable, expectation{job.Delivered, 2, 1}, nil)
	}, nil
}

// outlive has a fleet work jobs until its only worker has died, and starts another.
func (w *world) outlive(ctx context.Context, specs []job.Spec) error {
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return err
	}
	if err := w.enqueue(ctx, specs...); err != nil {
		return err
	}
	if err := w.awaitThat(ctx, "the worker has died", fleet[2].dead); err != nil {
		return err
	}
	_, err = w.worker(ctx)
	return err
}

// deliveredOnce expects that every job is delivered by its first attempt.
func deliveredOnce(a *account) {
	for _, h := range a.held {
		g, seen := h.current()
		if g.State != job.Delivered || g.Attempt != 1 || seen.requests != 1 {
			a.problemf("%s is %s after %d attempts, sent %d times, and must be delivered by the first", h.name(), g.State, g.Attempt, seen.requests)
		}
	}
}

func crashAfterCommit(ctx context.Context, w *world) (verify, error) {
	specs := w.each(perKind, three...)
	var mu sync.Mutex
	settled := 0
	w.on(acknowledging, func(moment) error {
		mu.Lock()
		defer mu.Unlock()
		if settled < len(specs) {
			return errSwallowed
		}
		return nil
	})
	w.on(afterSettle, func(m moment) error {
		mu.Lock()
		defer mu.Unlock()
		if settled >= len(specs) {
			return nil
		}
		if settled += len(m.reports); settled >= len(specs) {
			w.fire(settled)
			m.proc.kill()
		}
		return nil
	})
	if err := w.outlive(ctx, specs); err != nil {
		return nil, err
	}
	return deliveredOnce, w.awaitStale(ctx, len(specs))
}

// awaitStale waits until so many references came again and were dropped.
func (w *world) awaitStale(ctx context.Context, n int) error {
	return w.awaitThat(ctx, "what was not acknowledged has come again", func() bool { return w.counted(&w.stale) >= n })
}

func lostAck(ctx context.Context, w *world) (verify, error) {
	specs := w.each(perKind, three...)
	w.on(acknowledging, w.times(len(specs), errUnheard))
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, specs...); err != nil {
		return nil, err
	}
	return deliveredOnce, w.awaitStale(ctx, len(specs))
}

func lateDelivery(ctx context.Context, w *world) (verify, error) {
	// Jobs of one kind lie on the bus until their deadline has passed; an attempt of the
	// other is leased and does not come to its first byte before.
	onBus, inHand := w.each(perKind, plain), w.each(perKind, deduped)
	now, err := w.now(ctx)
	if err != nil {
		return nil, err
	}
	const onBusFor, inHandFor = 4 * time.Second, 1500 * time.Millisecond
	for i := range onBus {
		onBus[i].Deadline = now.Add(onBusFor)
	}
	w.on(received, func(m moment) error {
		if m.kind == plain {
			w.fire(1)
			w.rest(time.Until(now.Add(onBusFor + 200*time.Millisecond)))
		}
		return nil
	})
	var deadline time.Time
	w.on(performing, func(m moment) error {
		if m.kind == deduped && time.Now().Before(deadline) {
			w.fire(1)
			w.rest(time.Until(deadline.Add(200 * time.Millisecond)))
		}
		return nil
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, onBus...); err != nil {
		return nil, err
	}
	if now, err = w.now(ctx); err != nil {
		return nil, err
	}
	deadline = now.Add(inHandFor)
	for i := range inHand {
		inHand[i].Deadline = deadline
	}
	if err := w.enqueue(ctx, inHand...); err != nil {
		return nil, err
	}
	return func(a *account) {
		for _, kind := range []string{plain, deduped} {
			a.expect(kind, expectation{job.Quarantined, 0, 0}, nil)
		}
		for _, h := range a.held {
			if g, _ := h.current(); g.Reason != job.ReasonDeadline {
				a.problemf("%s is %s for the reason %q, which must be %q", h.name(), g.State, g.Reason, job.ReasonDeadline)
			}
		}
	}, nil
}

func pausedWorker(ctx context.Context, w *world) (verify, error) {
	// Of each kind one attempt has not begun when the worker is paused, and one is over and
	// not reported.
	waits := func(key string) bool { return strings.HasSuffix(key, "-0") }
	specs := w.each(2, three...)
	var mu sync.Mutex
	come := 0
	reached := func(m moment) error {
		mu.Lock()
		defer mu.Unlock()
		if come >= len(specs) {
			return nil
		}
		if come++; come == len(specs) {
			w.fire(1)
			m.proc.freeze()
		}
		return nil
	}
	held := make(chan struct{})
	hold := func(m moment) error {
		err := reached(m)
		select {
		case <-held:
		case <-w.over:
		}
		return err
	}
	var first *proc
	w.on(performing, func(m moment) error {
		if m.proc == first && waits(m.key) {
			return hold(m)
		}
		return nil
	})
	w.on(done, func(m moment) error {
		if m.proc == first && !waits(m.key) {
			return hold(m)
		}
		return nil
	})
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	first = fleet[2]
	if err := w.enqueue(ctx, specs...); err != nil {
		return nil, err
	}
	if err := w.awaitThat(ctx, "the worker is paused", func() bool { return w.counted(&w.fired) > 0 }); err != nil {
		return nil, err
	}
	if _, err := w.worker(ctx); err != nil {
		return nil, err
	}
	err = w.await(ctx, "the paused worker's leases have ended", func() (bool, error) {
		tally, err := w.store.Tally(ctx)
		return tally[job.Leased] == 0 && tally[job.Unknown] >= perKind, err
	})
	if err != nil {
		return nil, err
	}
	first.thaw()
	close(held)
	err = w.await(ctx, "what the paused worker had done counts", func() (bool, error) {
		story, err := w.store.Find(ctx, plain, "plain-1")
		g, _ := story.Current()
		return g.State == job.Delivered, err
	})
	return func(a *account) {
		a.expect(plain, expectation{job.Unknown, 1, 0}, waits)
		a.expect(plain, expectation{job.Delivered, 1, 1}, func(key string) bool { return !waits(key) })
		a.expect(deduped, expectation{job.Delivered, anyNumber, anyNumber}, nil)
		a.expect(askable, expectation{job.Delivered, anyNumber, 1}, nil)
	}, err
}

func lostCommitReply(ctx context.Context, w *world) (verify, error) {
	w.on(afterLease, w.times(len(three), machine.ErrUnclear))
	w.on(afterSettle, w.times(1, machine.ErrUnclear))
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	return deliveredOnce, w.enqueue(ctx, w.each(perKind, three...)...)
}

func ledgerAway(ctx context.Context, w *world) (verify, error) {
	// It goes away while the effects are under way: no result can be committed, no lease
	// renewed, nothing else leased.
	const awayFor = 2 * time.Second
	var mu sync.Mutex
	var until time.Time
	w.receiver.plans(func(v *visit) {
		mu.Lock()
		if until.IsZero() {
			until = time.Now().Add(awayFor)
		}
		mu.Unlock()
		obliging(v)
	})
	w.on(beforeAny, func(moment) error {
		mu.Lock()
		defer mu.Unlock()
		if !until.IsZero() && time.Now().Before(until) {
			w.fire(1)
			return machine.ErrAway
		}
		return nil
	})
	if _, err := w.fleet(ctx, 2); err != nil {
		return nil, err
	}
	return deliveredOnce, w.enqueue(ctx, w.each(4, three...)...)
}

// errPoison is what a ledger says to a result that it cannot take.
var errPoison = errors.New("this result cannot be stored")

func poison(ctx context.Context, w *world) (verify, error) {
	const bad = "plain-0"
	w.on(beforeSettle, func(m moment) error {
		if !slices.Contains(w.names(m.reports), plain+"/"+bad) {
			return nil
		}
		w.fire(1)
		return errPoison
	})
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := fleet[1].link.garbage(ctx, plain); err != nil {
		return nil, err
	}
	w.fire(1)
	if err := w.enqueue(ctx, w.each(4, plain)...); err != nil {
		return nil, err
	}
	err = w.awaitThat(ctx, "the message is set aside", func() bool { return w.counted(&w.aside) > 0 })
	return func(a *account) {
		a.expect(plain, expectation{job.Unknown, 1, 1}, func(key string) bool { return key == bad })
		a.expect(plain, expectation{job.Delivered, 1, 1}, func(key string) bool { return key != bad })
	}, err
}

func deploy(ctx context.Context, w *world) (verify, error) {
	stopping := make(chan struct{})
	w.receiver.plans(func(v *visit) {
		select {
		case <-stopping:
			v.rest(200 * time.Millisecond) // it is draining by now
		case <-w.over:
		}
		obliging(v)
	})
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	specs := w.each(4, three...)
	if err := w.enqueue(ctx, specs...); err != nil {
		return nil, err
	}
	err = w.awaitThat(ctx, "effects are under way", func() bool { return len(w.receiver.effects()) >= len(specs) })
	if err != nil {
		return nil, err
	}
	w.fire(len(specs))
	old := fleet[2]
	old.order()
	close(stopping)
	var more []job.Spec
	for _, kind := range three {
		more = append(more, w.spec(kind, kind+"-later"))
	}
	if err := w.enqueue(ctx, more...); err != nil {
		return nil, err
	}
	if _, err := w.worker(ctx); err != nil {
		return nil, err
	}
	return deliveredOnce, old.stop()
}

func timeoutAfterAccept(ctx context.Context, w *world) (verify, error) {
	w.receiver.plans(func(v *visit) {
		v.act()
		if v.nth == 1 {
			w.fire(1)
			v.untilGone()
			return
		}
		v.answer(http.StatusOK)
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	return func(a *account) {
		a.expect(plain, expectation{job.Unknown, 1, 1}, nil)
		a.expect(deduped, expectation{job.Delivered, 2, 2}, nil)
		a.expect(askable, expectation{job.Delivered, 1, 1}, nil)
	}, w.enqueue(ctx, w.each(perKind, three...)...)
}

func permanentError(ctx context.Context, w *world) (verify, error) {
	w.receiver.plans(func(v *visit) {
		w.fire(1)
		v.answer(http.StatusUnprocessableEntity)
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	return func(a *account) {
		for _, kind := range three {
			a.expect(kind, expectation{job.Quarantined, 1, 1}, nil)
		}
		for _, h := range a.held {
			if g, _ := h.current(); g.Reason != job.ReasonPermanent {
				a.problemf("%s is quarantined for the reason %q, which must be %q", h.name(), g.Reason, job.ReasonPermanent)
			}
		}
	}, w.enqueue(ctx, w.each(perKind, three...)...)
}
