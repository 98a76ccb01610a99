package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"duly.dev/duly/internal/machine"
)

// Every call of a process goes through here. It takes a while, and may fail, lose its reply,
// or commit when its caller has long been told that nobody knows.

// Instants. Two goroutines that wake at one instant could do what they do in either order,
// and the schedule would not be the same again. So nobody wakes where another does: an
// instant is a microsecond and a place in it, and each caller and method has a place of its
// own. The loops' own timers are whole microseconds long, so that they stay in their place.
const (
	grain   = time.Microsecond
	methods = 55 // places of one caller
	// Places of what is no caller's: attempts, inquiries and requests, one a job.
	placeAttempt = 750
	placeInquiry = 800
	placeRequest = 850
)

// Slots are the callers' places.
const (
	slotProducer = iota
	slotPerson   // two of them
	_
	slotChaos
	slotBroker // as many as consumers
	_
	slotProcess // and more
)

var methodNames = []string{
	"Lease", "LeasedBy", "Settle", "HoldRefs", "PassMark", "Reject", "RegisterWorker", "Heartbeat", "EndWorker",
	"ClaimTopic", "ReleaseTopic", "ReadOutbox", "Advance", "Notices", "SetAside", "RetryUnsendable", "IssueMark", "MarkStands",
	"Promote", "Beats", "EndDead", "Undrained", "EndLeasesOf", "Drained", "EndOverrun", "Expire", "CloseUnknown", "Patrol",
	"Judge", "KeepOutbox", "KeepPartitions", "RemoveWorkers", "TakeQuestions", "Answer", "TakeCleanups", "NoteCleanups",
	"SyncKinds", "Redrive", "Resolve", "Cancel", "Find", "List", "Enqueue", "Replace",
	"Publish", "Receive", "Ack", "Release", "Clean", "Bind", "look",
}

var methodIndex = func() map[string]int {
	if len(methodNames) > methods {
		panic("there are not as many places")
	}
	index := make(map[string]int, len(methodNames))
	for i, name := range methodNames {
		index[name] = i
	}
	return index
}()

// place is where a caller's method wakes.
func place(slot int, method string) int {
	i, ok := methodIndex[method]
	if !ok {
		panic("no place for " + method)
	}
	return slot*methods + i
}

// rest waits for about d, until an instant at the place; ctx may end it.
func (w *world) rest(ctx context.Context, place int, d time.Duration) error {
	now := w.elapsed()
	until := (now + d).Truncate(grain) + grain + time.Duration(place)
	timer := time.NewTimer(until - now)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// latency is how long a call is on its way.
func latency(c chance) time.Duration {
	return c.of("latency").between(200*time.Microsecond, 8*time.Millisecond)
}

// errDown is what a call fails with that the ledger never saw.
var errDown = fmt.Errorf("%w: the call was lost", machine.ErrAway)

// look is a call that changes nothing.
func look[T any](ctx context.Context, l *life, method string, about uint64, do func(context.Context) (T, error)) (T, error) {
	return call(ctx, l, method, about, false, do)
}

// change is a call that commits something.
func change[T any](ctx context.Context, l *life, method string, about uint64, do func(context.Context) (T, error)) (T, error) {
	return call(ctx, l, method, about, true, do)
}

// glance is a call that nothing hangs on. It takes no time: loops that ask for the same at
// one instant get the same answer at one instant.
func glance[T any](ctx context.Context, l *life, do func(context.Context) (T, error)) (T, error) {
	var none T
	l.awake(place(l.p.slot, "look"), 0)
	switch {
	case l.dead():
		return none, errGone
	case ctx.Err() != nil:
		return none, ctx.Err()
	case l.w.isDown():
		l.trouble()
		return none, errDown
	}
	return do(ctx)
}

// call makes a call, with all that may go wrong with it.
func call[T any](ctx context.Context, l *life, method string, about uint64, commits bool, do func(context.Context) (T, error)) (T, error) {
	var none T
	if l.dead() {
		return none, errGone
	}
	w, at := l.w, place(l.p.slot, method)
	c := w.dice.roll(l.name, method, about, w.elapsed())
	d, f := w.fate(c, commits)
	if f != "" {
		l.trouble()
	}
	err := l.travel(ctx, at, d)
	if f != "" && f != ledgerOutage { // that is told once
		w.happenedf(f, "%s %s", l.name, method)
	}
	if err != nil {
		arrives := commits && c.of("arrives").below(0.5)
		if errors.Is(err, errGone) && commits {
			w.happenedf(map[bool]fault{true: crashCommitted, false: crashUnsent}[arrives], "%s %s", l.name, method)
		}
		l.trouble()
		if arrives {
			_, _ = do(context.WithoutCancel(ctx))
		}
		return none, fmt.Errorf("%s: %w: %w", method, machine.ErrUnclear, err)
	}
	switch f {
	case callFails, ledgerOutage:
		return none, fmt.Errorf("%s: %w", method, errDown)
	case commitLate:
		w.loose.Go(func() {
			_ = w.rest(context.Background(), at, c.of("late").between(time.Second, 13*time.Second))
			_, _ = do(context.Background())
		})
		return none, fmt.Errorf("%s: %w", method, machine.ErrUnclear)
	default: // it arrives
	}
	v, err := do(context.WithoutCancel(ctx))
	if err != nil {
		return none, err
	}
	if f == replyLost {
		return none, fmt.Errorf("%s: %w", method, machine.ErrUnclear)
	}
	if commits && c.of("reply").below(0.3) { // else it comes in the same instant
		if err := l.travel(ctx, at, latency(c.of("back"))); err != nil {
			l.trouble()
			return none, fmt.Errorf("%s: %w: %w", method, machine.ErrUnclear, err)
		}
	}
	return v, nil
}

// fate is how long a call is on its way to the ledger, and what goes wrong with it.
func (w *world) fate(c chance, commits bool) (time.Duration, fault) {
	d := latency(c)
	if w.isDown() {
		return d, ledgerOutage
	}
	if w.calm.Load() {
		return d, ""
	}
	is := func(f fault) bool { return c.of(string(f)).below(w.plan.rates[f]) }
	switch {
	case is(callFails):
		return d, callFails
	case is(callSlow):
		return c.of("slow").between(time.Second, 4*time.Second), callSlow
	case commits && is(replyLost):
		return d, replyLost
	case commits && is(commitLate):
		return d, commitLate
	}
	return d, ""
}

// digest makes a number of what a call is about.
func digest(parts ...any) uint64 { return uint64(dice(0).roll(parts...)) }

// digestOf makes a number of a list.
func digestOf[T any](all []T, part func(T) uint64) uint64 {
	h := chance(len(all))
	for v := range slices.Values(all) {
		h = chance(mix(uint64(h) ^ part(v)))
	}
	return uint64(h)
}
