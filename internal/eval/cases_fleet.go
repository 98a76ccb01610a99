package eval

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"duly.dev/duly/internal/bus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/pkg/job"
)

func duplicateDelivery(ctx context.Context, w *world) (verify, error) {
	w.publishing(func(bus.Message) fate {
		w.fire(1)
		return twice
	})
	if _, err := w.fleet(ctx, 2); err != nil {
		return nil, err
	}
	return deliveredOnce, w.enqueue(ctx, w.each(perKind, three...)...)
}

func crashOfDispatcher(ctx context.Context, w *world) (verify, error) {
	var once sync.Once
	w.on(afterPublish, func(m moment) error {
		once.Do(func() {
			w.fire(1)
			m.proc.kill()
		})
		return nil
	})
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, w.each(perKind, three...)...); err != nil {
		return nil, err
	}
	if err := w.awaitThat(ctx, "the dispatcher has died", fleet[1].dead); err != nil {
		return nil, err
	}
	_, err = w.dispatcher(ctx)
	return deliveredOnce, err
}

func lostBus(ctx context.Context, w *world) (verify, error) {
	specs := w.each(perKind, three...)
	var mu sync.Mutex
	refs := 0
	w.publishing(func(m bus.Message) fate {
		e, err := bus.DecodeEnvelope(m.Body)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || refs >= len(specs) {
			return keep
		}
		refs += len(e.Refs)
		w.fire(len(e.Refs))
		return lose
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, specs...); err != nil {
		return nil, err
	}
	return deliveredOnce, w.awaitThat(ctx, "what was lost is announced anew", func() bool { return w.counted(&w.lost) >= len(specs) })
}

// refuseFirst has the receiver refuse everything, until it is told to take it, and waits
// until all jobs are quarantined.
func refuseFirst(ctx context.Context, w *world, specs []job.Spec) error {
	w.receiver.plans(func(v *visit) { v.answer(http.StatusUnprocessableEntity) })
	if _, err := w.fleet(ctx, 1); err != nil {
		return err
	}
	if err := w.enqueue(ctx, specs...); err != nil {
		return err
	}
	err := w.await(ctx, "all are quarantined", func() (bool, error) {
		tally, err := w.store.Tally(ctx)
		return tally[job.Quarantined] == len(specs), err
	})
	w.receiver.plans(nil)
	return err
}

// redrive asks for the next generation of a job's first.
func (w *world) redrive(ctx context.Context, s job.Spec, recoveryKey string) (machine.Successor, error) {
	desk := redrive.NewDesk(w.store, w.store, redrive.Options{})
	made, err := desk.Redrive(ctx, machine.RedriveRequest{
		Kind: s.Kind, Key: s.Key, Generation: 1, RecoveryKey: recoveryKey, Approver: "eval", Actor: "eval", Reason: "the receiver is repaired",
	})
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.redriven[s.Kind+"/"+s.Key].IsZero() {
			w.redriven[s.Kind+"/"+s.Key] = time.Now()
		}
	}
	return made, err
}

func concurrentRedrive(ctx context.Context, w *world) (verify, error) {
	const asked = 8
	specs := w.each(perKind, three...)
	if err := refuseFirst(ctx, w, specs); err != nil {
		return nil, err
	}
	var problems []string
	for _, s := range specs {
		type answer struct {
			made machine.Successor
			err  error
		}
		answers := make([]answer, asked)
		var asking sync.WaitGroup
		for i := range answers {
			asking.Go(func() {
				answers[i].made, answers[i].err = w.redrive(ctx, s, fmt.Sprintf("decision-%d", i%2))
			})
		}
		asking.Wait()
		w.fire(asked)
		for i, a := range answers {
			first := answers[i%2]
			switch {
			case (a.err == nil) != (first.err == nil):
				problems = append(problems, fmt.Sprintf("G9: %s/%s: one recovery key was answered both yes and no", s.Kind, s.Key))
			case a.err == nil && a.made.Generation != 2:
				problems = append(problems, fmt.Sprintf("G9: %s/%s: generation %d was made", s.Kind, s.Key, a.made.Generation))
			}
		}
		if (answers[0].err == nil) == (answers[1].err == nil) {
			problems = append(problems, fmt.Sprintf("G9: %s/%s: of two recovery keys not exactly one won", s.Kind, s.Key))
		}
	}
	return func(a *account) {
		a.problems = append(a.problems, problems...)
		a.redrivenOnce()
	}, nil
}

// redrivenOnce expects of every job a quarantined generation, and one that is delivered.
func (a *account) redrivenOnce() {
	for _, kind := range three {
		a.expect(kind, expectation{job.Delivered, 1, 1}, nil)
	}
	for _, h := range a.held {
		if n := len(h.story.Generations); n != 2 || h.story.Generations[0].State != job.Quarantined {
			a.problemf("G9: %s has %d generations, and must have a quarantined one and its successor", h.name(), n)
		}
	}
}

func oldGeneration(ctx context.Context, w *world) (verify, error) {
	specs := w.each(perKind, three...)
	var mu sync.Mutex
	var old []bus.Message
	redriven := false
	w.publishing(func(m bus.Message) fate {
		mu.Lock()
		defer mu.Unlock()
		if !redriven {
			old = append(old, copyOf(m))
		}
		return keep
	})
	if err := refuseFirst(ctx, w, specs); err != nil {
		return nil, err
	}
	mu.Lock()
	redriven = true
	mu.Unlock()
	for _, s := range specs {
		if _, err := w.redrive(ctx, s, "decision"); err != nil {
			return nil, err
		}
	}
	late, err := w.connect(ctx, "late copies")
	if err != nil {
		return nil, err
	}
	defer func() { _ = late.Close() }()
	before := w.counted(&w.stale)
	for _, err := range late.Publish(ctx, old) {
		if err != nil {
			return nil, err
		}
	}
	w.fire(len(old))
	return (*account).redrivenOnce, w.awaitStale(ctx, before+len(specs))
}

// garbage publishes a message that nobody understands.
func (l *link) garbage(ctx context.Context, lane string) error {
	return l.Bus.Publish(ctx, []bus.Message{{Type: bus.TypeWork, Lane: lane, ID: "garbage-" + lane, Kind: lane, Body: []byte(`{"refs":`)}})[0]
}

func answerReplyLost(ctx context.Context, w *world) (verify, error) {
	w.on(afterAnswer, w.times(1, machine.ErrUnclear))
	w.receiver.plans(func(v *visit) {
		v.act()
		v.hangUp()
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	return func(a *account) { a.expect(askable, expectation{job.Delivered, 1, 1}, nil) }, w.enqueue(ctx, w.each(perKind, askable)...)
}

func cleanupReplyLost(ctx context.Context, w *world) (verify, error) {
	w.on(afterCleanup, w.times(1, machine.ErrUnclear))
	specs := w.each(perKind, cleaned)
	if err := w.generate(ctx, specs); err != nil {
		return nil, err
	}
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, specs...); err != nil {
		return nil, err
	}
	err := w.await(ctx, "cleanups are done", func() (bool, error) {
		for _, s := range specs {
			story, err := w.store.Show(ctx, s.Kind, s.Key)
			if err != nil || story.Cleanup.DoneAt.IsZero() {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	w.rest(3 * time.Second) // in which a second removal would come, were there one
	removed, left, err := w.removed(ctx)
	return func(a *account) {
		a.expect(cleaned, expectation{job.Delivered, 1, 1}, nil)
		for _, h := range a.held {
			if removed[h.key] != 1 {
				a.problemf("G11: what was generated for %s was removed %d times", h.name(), removed[h.key])
			}
			if g, _ := h.current(); h.story.Cleanup.DoneAt.Before(g.Ended) {
				a.problemf("G11: what was generated for %s was removed before it was delivered", h.name())
			}
		}
		if left != 1 {
			a.problemf("G11: %d rows are left, and the one that belongs to nobody must be", left)
		}
	}, err
}

// brokenJobs are few: what happens to one happens to all.
const brokenJobs = 2

func brokenWindow(ctx context.Context, w *world) (verify, error) {
	w.receiver.breaks()
	w.receiver.plans(func(v *visit) {
		v.act()
		if v.nth == 1 {
			w.fire(1)
			v.hangUp()
		}
		v.answer(http.StatusOK)
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	return func(a *account) { a.expect(deduped, expectation{job.Delivered, 2, 2}, nil) }, w.enqueue(ctx, w.each(brokenJobs, deduped)...)
}

func brokenSettle(ctx context.Context, w *world) (verify, error) {
	w.receiver.breaks()
	acted := make(chan struct{}, brokenJobs)
	w.receiver.plans(func(v *visit) {
		if v.nth > 1 {
			obliging(v)
			return
		}
		// It says no when it is asked, and goes on working for longer than it was given.
		for e := v.receiver.effect(v.key); e.effects == 0; e = v.receiver.effect(v.key) {
			select {
			case <-w.over:
				return
			case <-time.After(lookEvery):
			}
		}
		w.fire(1)
		v.act()
		acted <- struct{}{}
	})
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if err := w.enqueue(ctx, w.each(brokenJobs, askable)...); err != nil {
		return nil, err
	}
	n := 0
	err := w.awaitThat(ctx, "the receiver has acted late", func() bool {
		select {
		case <-acted:
			n++
		default:
		}
		return n == brokenJobs
	})
	return func(a *account) { a.expect(askable, expectation{job.Delivered, 2, 2}, nil) }, err
}
