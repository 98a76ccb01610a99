package sim

import (
	"context"
	"slices"
	"sync"
	"time"
)

// storm begins every incident of the plan at its instant, and returns what waits until all
// are over.
func (w *world) storm() *sync.WaitGroup {
	var incidents sync.WaitGroup
	places := slotChaos * methods
	for _, f := range faults() {
		for i := range w.plan.incidents[f] {
			c := w.dice.roll("incident", string(f), i)
			places++
			at := places
			incidents.Go(func() {
				_ = w.rest(context.Background(), at, c.of("at").between(time.Second, stormy))
				w.incident(f, c, at)
			})
		}
	}
	return &incidents
}

// incident is one incident from its beginning to its end.
func (w *world) incident(f fault, c chance, at int) {
	rest := func(from, to time.Duration) { _ = w.rest(context.Background(), at, c.of("for").between(from, to)) }
	p := w.victim(f, c)
	switch f {
	case crash:
		if p.crash() {
			w.happenedf(f, "%s", p.name)
		}
		rest(50*time.Millisecond, 20*time.Second)
		p.start()
	case freeze:
		w.freeze(f, p, c.of("for").between(200*time.Millisecond, 8*time.Second), at)
	case freezePastLease:
		w.freeze(f, p, c.of("for").between(leaseTime+time.Second, 2*leaseTime), at)
	case deploy:
		if l := p.alive(); l != nil && p.renew() {
			w.happenedf(f, "%s", l.name)
		}
	case ledgerOutage:
		w.happenedf(f, "it begins")
		w.down(c.of("for").between(time.Second, 15*time.Second))
		rest(time.Second, 15*time.Second)
	case clockForward, clockBack:
		w.step(f)
	case busOutage:
		w.happenedf(f, "it begins")
		w.broker.Stop()
		rest(time.Second, 20*time.Second)
		w.broker.Start()
		w.sayf("the bus is back")
	case busWiped:
		w.happenedf(f, "all messages are gone")
		w.broker.Wipe()
	default: // it has no instant of its own
	}
}

// victim is the process that an incident strikes.
func (w *world) victim(f fault, c chance) *process {
	all := w.processes
	if f == freezePastLease {
		all = slices.Clone(all[:w.plan.workers])
	}
	return all[c.of("victim").upTo(len(all))]
}

// freeze lets a process rest. A broker that hears nothing of it for too long delivers again
// what it holds.
func (w *world) freeze(f fault, p *process, d time.Duration, at int) {
	l := p.freeze(d)
	if l == nil {
		return
	}
	w.happenedf(f, "%s for %s", l.name, d)
	if d > visibility {
		_ = w.rest(context.Background(), at, visibility)
		if !l.dead() && p.frozen() > 0 && l.bus.Lapse() > 0 {
			w.happenedf(freezePastBroker, "%s", l.name)
		}
	}
	_ = w.rest(context.Background(), at, max(p.frozen(), 0))
}

// step moves the ledger's clock, one way and then only back.
func (w *world) step(f fault) {
	to := swing / 2
	if f == clockBack {
		to = -swing / 2
	}
	w.mu.Lock()
	by := to - w.offset
	w.offset = to
	if by != 0 {
		w.stepped = w.elapsed()
	}
	w.mu.Unlock()
	if by != 0 {
		w.happenedf(f, "by %s", by)
	}
}
