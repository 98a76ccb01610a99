package e2e_test

import (
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// actAndWait is the plan of a receiver that acts at once and answers first requests
// only when the gate opens.
func actAndWait(g *gate) func(*visit) {
	return func(v *visit) {
		v.act()
		if v.nth == 1 {
			v.wait(g)
		}
		v.answer(http.StatusOK)
	}
}

// G1, G8, C38: a worker that is killed while receivers act leaves effects of which nobody
// knows the end. They are repeated only where the receiver dedupes.
func TestG1KilledWorkersEffectsAreRepeatedOnlyWhereTheReceiverDedupes(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, servers{})
	held := newGate()
	r.web.plans(actAndWait(held))
	r.mail.plans(func(l *letter) error { l.act(); l.wait(held); return nil })
	r.start(scheduler, dispatcher)
	victim := r.one(worker)
	r.enqueue(r.jobs(plain, "p", 3)...)
	r.enqueue(r.jobs(deduped, "d", 3)...)
	r.enqueue(r.jobs(mailed, "m", 3)...)
	r.await("the receivers have acted", func() bool { return r.web.total() == 6 && r.mail.total() == 3 })
	victim.kill()

	r.one(worker)
	r.await("the killed worker's jobs end", r.settled)
	states := r.account()
	require.Equal(t, map[job.State]int{job.Unknown: 6, job.Delivered: 3}, states)
	for _, g := range r.generations() {
		if g.Kind == deduped {
			require.Equal(t, int32(2), g.Attempt, "%s: the attempt of the killed worker counts", g)
			continue
		}
		require.Equal(t, int32(1), g.Attempt, "%s: it was not tried again", g)
	}
	asked, _ := r.web.seen()
	for key, n := range asked {
		require.Equal(t, strings.HasPrefix(key, deduped), n > 1, "%s was sent %d times", key, n)
	}
}

// G1, G2, G3: whenever a worker is killed, its jobs go on elsewhere, and nothing that
// happened happens again.
func TestG2WorkersMayBeKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, servers{})
	r.remindSoon(2 * time.Second)
	r.web.plans(func(v *visit) {
		elapse(rand.N(30 * time.Millisecond)) // receivers take their time
		v.act()
		elapse(rand.N(30 * time.Millisecond))
		v.answer(http.StatusOK)
	})
	r.start(scheduler, dispatcher)
	r.enqueue(r.jobs(plain, "p", 150)...)
	r.enqueue(r.jobs(deduped, "d", 150)...)
	for range 8 {
		victim := r.one(worker)
		before := r.web.total()
		r.await("the worker has done something", func() bool { return r.web.total() > before || r.settled() })
		elapse(rand.N(150 * time.Millisecond)) // the moment is left to chance
		victim.kill()
	}
	r.one(worker)
	states := r.account()
	require.Equal(t, 300, states[job.Delivered]+states[job.Unknown], "%v", states)
	require.GreaterOrEqual(t, states[job.Delivered], 150, "what may be repeated is delivered")
}

// G3, G6: a worker that is killed between its commit and the acknowledgement leaves
// messages that come again. Their references are stale.
func TestG3WhatIsRedeliveredAfterItsCommitDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, calm, servers{})
	r.remindSoon(2 * time.Second)
	held := newGate()
	r.web.plans(actAndWait(held))
	r.start(scheduler, dispatcher)
	way := r.way(r.bus, anywhere)
	victim := r.startWith(worker, "DULY_BUS_URL="+through(t, r.bus, way.Address())).ready()
	r.enqueue(r.jobs(plain, "p", 8)...)
	r.enqueue(r.jobs(deduped, "d", 8)...)
	r.await("the receivers have acted", func() bool { return r.web.total() == 16 })
	way.Hold() // acknowledgements stay on the way
	held.open()
	r.await("the results are committed", r.in(job.Delivered, 16))
	victim.kill()
	way.Cut()

	second := r.one(worker)
	r.await("the messages came again", func() bool { return counter(second, "duly_worker_stale_references_total") == 16 })
	asked, _ := r.web.seen()
	for key, n := range asked {
		require.Equal(t, 1, n, "%s was sent again", key)
	}
	require.Equal(t, map[job.State]int{job.Delivered: 16}, r.account())
}

// counter sums up a metric of the process over its labels.
func counter(p *process, name string) (sum float64) {
	_, metrics := p.admin("/metrics")
	for _, found := range regexp.MustCompile(`(?m)^`+name+`(?:\{[^}]*\})? (\S+)`).FindAllStringSubmatch(metrics, -1) {
		if n, err := strconv.ParseFloat(found[1], 64); err == nil {
			sum += n
		}
	}
	return sum
}

// G4, G5: a worker that was stopped past its lease begins nothing when it goes on.
func TestG4PausedWorkerBeginsNothingUnderADeadLease(t *testing.T) {
	t.Parallel()
	s := steady
	s.Sessions = 1 // one mail at a time: the others are leased and have not begun
	r := newRig(t, s, servers{})
	held := newGate()
	r.mail.plans(func(l *letter) error { l.act(); l.wait(held); return nil })
	r.start(scheduler, dispatcher)
	sleeper := r.one(worker)
	r.enqueue(r.jobs(mailed, "m", 3)...)
	r.await("one mail is sent and two wait", func() bool { return r.mail.total() == 1 && r.states()[job.Leased] == 3 })
	sleeper.pause()
	r.await("the leases end", r.in(job.Unknown, 3))
	held.open()
	sleeper.resume()

	sleeper.says("the ledger has ended this worker")
	r.await("its attempts have ended", func() bool { return strings.Count(sleeper.log.String(), `"msg":"an attempt ended"`) >= 3 })
	require.Equal(t, 1, r.mail.total(), "nothing was sent under the dead lease")
	r.enqueue(r.job(mailed, "later"))
	r.await("it works again, registered anew", func() bool { return r.state(mailed, "later") == job.Delivered })
	states := r.account()
	// Whether the one that was sent is known to be depends on whether its answer or its
	// limit woke first.
	require.Equal(t, 4, states[job.Unknown]+states[job.Delivered], "%v", states)
	require.GreaterOrEqual(t, states[job.Unknown], 2)
}

// G5: what a worker reports after its lease has ended is evidence: a success settles.
func TestG5LateSuccessIsEvidence(t *testing.T) {
	t.Parallel()
	r := newRig(t, steady, servers{})
	held := newGate()
	r.web.plans(actAndWait(held))
	r.start(scheduler, dispatcher)
	way := r.way(r.database, anywhere)
	sleeper := r.startWith(worker, "DULY_DATABASE_URL="+through(t, r.database, way.Address())).ready()
	r.enqueue(r.jobs(plain, "p", 3)...)
	r.enqueue(r.jobs(deduped, "d", 3)...)
	r.await("the receivers have acted", func() bool { return r.web.total() == 6 })
	way.Hold() // the ledger hears nothing of the worker any more
	held.open()
	sleeper.says("cannot settle")
	sleeper.pause()
	r.await("its leases end", r.in(job.Unknown, 3))
	sleeper.resume()
	way.Release()

	r.await("its word counts", r.in(job.Delivered, 6))
	for _, g := range r.generations() {
		if g.Kind == plain {
			require.Equal(t, int32(1), g.Attempt, "%s: nothing was sent again", g)
		}
	}
	require.Equal(t, map[job.State]int{job.Delivered: 6}, r.account())
}
