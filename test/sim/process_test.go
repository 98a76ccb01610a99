package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"duly.dev/duly/internal/bus/membus"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// process is one of the programs that take part. It lives several lives: each time that it
// crashes or is deployed anew, another begins.
type process struct {
	w    *world
	name string
	slot int // its place among the instants
	// loops makes the loops of a life.
	loops func(l *life) (func(context.Context) error, error)

	mu      sync.Mutex
	current *life
	lives   int
	all     []*life
	thaw    time.Duration // paused until then
}

// life is one run of a process.
type life struct {
	w    *world
	p    *process
	name string
	n    int
	bus  *membus.Bus

	stop context.CancelFunc // the order to end
	gone chan struct{}      // closed when it crashes
	done chan struct{}      // closed when its loops have ended
	once sync.Once

	mu sync.Mutex
	// troubles are instants at which something went wrong with it that may leave an
	// attempt in doubt.
	troubles []time.Duration
	// granted are the leases that it was told of, answered what became of references as
	// the ledger committed it, and passed the marks that it reported.
	granted  map[machine.Attempt]job.Ref
	answered map[job.Ref]bool
	passed   map[int64]bool
	ids      int
}

// errGone is what a process that crashed is answered: nothing of it has any effect.
var errGone = errors.New("the process is gone")

// start begins another life, unless one is there.
func (p *process) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return
	}
	p.lives++
	ctx, stop := context.WithCancel(context.Background())
	l := &life{
		w: p.w, p: p, n: p.lives, name: fmt.Sprintf("%s.%d", p.name, p.lives), bus: p.w.broker.Connect(),
		stop: stop, gone: make(chan struct{}), done: make(chan struct{}),
		granted: map[machine.Attempt]job.Ref{}, answered: map[job.Ref]bool{}, passed: map[int64]bool{},
	}
	p.current, p.all = l, append(p.all, l)
	run, err := p.loops(l)
	if err != nil {
		panic(fmt.Sprintf("making %s: %v", l.name, err))
	}
	p.w.sayf("%s starts", l.name)
	go func() {
		defer close(l.done)
		_ = run(ctx) // what it says at its end is for the log of a program
	}()
}

// alive is the current life, if there is one.
func (p *process) alive() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// crash ends the current life from one step to the next, and reports whether there was one.
func (p *process) crash() bool {
	p.mu.Lock()
	l := p.current
	p.current = nil
	p.mu.Unlock()
	if l == nil {
		return false
	}
	l.trouble()
	l.once.Do(func() { close(l.gone) })
	l.bus.Crash()
	l.stop()
	return true
}

// renew tells the current life to end, waits until it has, and begins another.
func (p *process) renew() bool {
	l := p.alive()
	if l == nil {
		return false
	}
	l.end()
	p.mu.Lock()
	if p.current == l {
		p.current = nil
	}
	p.mu.Unlock()
	p.start()
	return true
}

// end orders a life to end and waits until it has.
func (l *life) end() {
	l.stop()
	<-l.done
	_ = l.bus.Close()
}

// freeze lets the process rest for a while: it calls nothing and hears nothing meanwhile.
func (p *process) freeze(d time.Duration) *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		return nil
	}
	p.thaw = max(p.thaw, p.w.elapsed()+d)
	p.current.trouble()
	return p.current
}

// frozen is how much longer the process rests.
func (p *process) frozen() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw - p.w.elapsed()
}

// dead reports whether the life has ended in a crash.
func (l *life) dead() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// trouble notes that something went wrong with the life.
func (l *life) trouble() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = append(l.troubles, l.w.elapsed())
}

// troubledSince reports whether something has gone wrong with it since the instant.
func (l *life) troubledSince(at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.troubles {
		if t >= at {
			return true
		}
	}
	return false
}

// awake waits while the process rests, and a little longer: what all waits with it goes on
// one after the other. It reports whether it did.
func (l *life) awake(at int, longer time.Duration) (rested bool) {
	for d := l.p.frozen(); d > 0; d = l.p.frozen() {
		_ = l.w.rest(context.Background(), at, d+longer)
		rested = true
	}
	if rested {
		l.trouble()
	}
	return rested
}

// travel is the way of a call: it takes a while, and the process may rest, end or lose its
// patience meanwhile.
func (l *life) travel(ctx context.Context, at int, d time.Duration) error {
	own := d % time.Millisecond // what is cut, or wakes, at one instant goes on at several
	err := l.w.rest(ctx, at, d)
	if err != nil {
		_ = l.w.rest(context.Background(), at, own)
	}
	l.awake(at, own)
	switch {
	case l.dead():
		return errGone
	case err == nil:
		return ctx.Err()
	}
	return err
}

// newID names a registration, so that each is known by its life.
func (l *life) newID() string {
	l.mu.Lock()
	l.ids++
	id := fmt.Sprintf("%s/%d", l.name, l.ids)
	l.mu.Unlock()
	l.w.history.born(id, l)
	return id
}

// grant notes what the life was told of a lease. It reports what it knew before.
func (l *life) grant(g machine.Grant) (known bool) {
	id := machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known = l.granted[id]; known {
		return true
	}
	ref := job.Ref{Job: g.Row.Job, Generation: g.Row.Generation, Emission: g.Row.Emission}
	l.granted[id] = ref
	delete(l.answered, ref)
	return false
}

// answer notes references of which the ledger has committed what became of them.
func (l *life) answer(refs ...job.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range refs {
		l.answered[r] = true
	}
}

// settled notes an attempt of which the ledger has committed the end.
func (l *life) settled(id machine.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ref, ok := l.granted[id]; ok {
		l.answered[ref] = true
	}
}

// unanswered are the references of which the life does not know what the ledger made of them.
func (l *life) unanswered(refs []job.Ref) []job.Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []job.Ref
	for _, r := range refs {
		if !l.answered[r] {
			left = append(left, r)
		}
	}
	return left
}
