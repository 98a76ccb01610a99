package eval

import (
	"errors"
	"sync"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// point names a moment at which a process deals with the outside.
type point string

const (
	received      point = "received"      // messages are on their way to the process
	beforeLease   point = "before lease"  // the ledger was not asked yet
	afterLease    point = "after lease"   // it has committed, and the process does not know
	performing    point = "performing"    // an attempt is leased and its channel not called
	begun         point = "begun"         // the last check has passed, no byte is written
	done          point = "done"          // the effect is over, its result not reported
	beforeSettle  point = "before settle" // the ledger was not asked yet
	afterSettle   point = "after settle"  // it has committed, and the process does not know
	acknowledging point = "acknowledging" // the bus was not told yet
	afterAnswer   point = "after answer"  // an answer is committed, and the asker does not know
	afterCleanup  point = "after cleanup" // a cleanup is committed, and the janitor does not know
	afterPublish  point = "after publish" // a page is published, the cursor not moved
	beforeFire    point = "before fire"   // a schedule is about to be decided about
	freezing      point = "freezing"      // members of a run are written, nothing is committed
	beforeAny     point = "before a call" // of the ledger, whichever
)

// moment is what a case gets to see.
type moment struct {
	proc  *proc
	point point
	// kind and key are those of an attempt, of messages the lane's; grants and reports those
	// of a call.
	kind, key string
	grants    []machine.Grant
	reports   []machine.Report
	// cut breaks the connection of an attempt, and result is what it came to.
	cut    func()
	result job.Result
}

// size is how many attempts the moment is about.
func (m moment) size() int { return max(1, len(m.grants)+len(m.reports)) }

// hook acts at a moment. The error that it returns is what the process gets to see: before
// a call in place of it, after one in place of its reply.
type hook func(m moment) error

var (
	// errDead: the process was ended, and nothing that it does matters.
	errDead = errors.New("the process was ended")
	// errUnheard: the bus does not hear an acknowledgement, and delivers again.
	errUnheard = errors.New("not heard")
	// errSwallowed: an acknowledgement of a process that is about to be ended stays on its way.
	errSwallowed = errors.New("on its way")
)

// on has a hook act at every moment of the point, until the world ends.
func (w *world) on(at point, h hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[at] = append(w.hooks[at], h)
}

// act runs the hooks of a moment; the first error is the process's.
func (w *world) act(m moment) error {
	w.mu.Lock()
	hooks := w.hooks[m.point]
	w.mu.Unlock()
	for _, h := range hooks {
		if err := h(m); err != nil {
			return err
		}
	}
	return nil
}

// fire counts faults that happened.
func (w *world) fire(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired += n
}

// together holds attempts until n of them have come, then calls then once and lets all go
// on, those that come later too. Each of the n counts as a fault.
func (w *world) together(n int, then func(*proc)) hook {
	var mu sync.Mutex
	come := 0
	all := make(chan struct{})
	return func(m moment) error {
		mu.Lock()
		before := come
		come += m.size()
		last := before < n && come >= n
		mu.Unlock()
		if last {
			w.fire(n)
			then(m.proc)
			close(all)
		}
		select {
		case <-all:
		case <-m.proc.living.Done():
		case <-w.over:
		}
		return nil
	}
}

// times has a hook answer with an error the first n times, each of which counts as a fault.
func (w *world) times(n int, err error) hook {
	var mu sync.Mutex
	return func(moment) error {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 {
			return nil
		}
		n--
		w.fire(1)
		return err
	}
}
