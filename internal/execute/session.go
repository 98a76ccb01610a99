package execute

import (
	"sync"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// session is one registration of the process in the ledger, with all that hangs on
// it: the lease clock, and what is leased and not yet settled.
type session struct {
	worker machine.Worker
	wall   wallClock

	sent  atomic.Pointer[instant] // of the last renewal that succeeded
	ended atomic.Bool
	over  chan struct{} // closed when ended

	mu       sync.Mutex
	attempts map[machine.Attempt]*attempt
	calls    map[*call]struct{}
	// never holds fences that must not begin any more: they are being handed back, or
	// their end could not be committed.
	never map[machine.Attempt]struct{}
	// strangers are what the last heartbeat named although nobody here runs it.
	strangers map[machine.Attempt]struct{}
}

// call is a lease call that has not been answered or read back.
type call struct{ refs []job.Ref }

// wallClock is what the wall clock says, without a monotonic reading, at an instant that
// was just read.
type wallClock func(now time.Time) time.Time

// instant is an instant on both clocks.
type instant struct{ monotonic, wall time.Time }

// newSession begins a session whose registration was sent at the given instant.
func newSession(w machine.Worker, wall wallClock, sent instant) *session {
	s := &session{
		worker: w, wall: wall, over: make(chan struct{}),
		attempts: make(map[machine.Attempt]*attempt), calls: make(map[*call]struct{}), never: make(map[machine.Attempt]struct{}),
	}
	s.renewed(sent)
	return s
}

// maxJump is how far the wall clock may move against the monotonic one between two
// renewals. Clocks are slewed by less; a suspended machine moves by more, or by so
// little that the pause bound covers it.
const maxJump = time.Second

// left is how much of the lease is left at now; where none is, why. The lease counts
// from when the last renewal was sent, and as lost where the clocks disagree.
func (s *session) left(now time.Time) (time.Duration, refusal) {
	sent := s.sent.Load()
	elapsed := now.Sub(sent.monotonic)
	switch jump := s.wall(now).Sub(sent.wall) - elapsed; {
	case s.ended.Load():
		return 0, refusedEnded
	case jump > maxJump || jump < -maxJump:
		return 0, refusedSuspended
	}
	return s.worker.LeaseTime - elapsed, refusedLease
}

// fresh reports whether more than half of the lease is left, and as much as is
// needed: below that, leasing would only hand back.
func (s *session) fresh(need time.Duration) bool {
	left, _ := s.left(time.Now())
	return left > max(need, s.worker.LeaseTime/2)
}

func (s *session) renewed(sent instant) { s.sent.Store(&sent) }

// calling notes a lease call; returned ends it.
func (s *session) calling(refs []job.Ref) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{refs}
	s.calls[c] = struct{}{}
	return c
}

// returned ends the call and takes in what it leased. Those that run here already,
// or are being handed back, are returned as known: a read-back names every lease
// of this worker, and none may be run twice.
func (s *session) returned(c *call, leased []*attempt) (admitted, known []*attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c)
	for _, a := range leased {
		_, back := s.never[a.id]
		if _, runs := s.attempts[a.id]; runs || back {
			known = append(known, a)
			continue
		}
		s.attempts[a.id] = a
		admitted = append(admitted, a)
	}
	return admitted, known
}

// settled forgets attempts of which the ledger has committed the end.
func (s *session) settled(ids []machine.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.attempts, id)
	}
}

// givenUp forgets an attempt whose end cannot be committed. The ledger goes on to name
// its fence, and it must not be handed back: it has begun.
func (s *session) givenUp(id machine.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.attempts, id)
	s.never[id] = struct{}{}
}

// unknownHere compares what the ledger says that the worker holds with what it
// runs, and returns what is to be handed back, marked "never begin" already. It
// names a fence only when two heartbeats in a row have, since one that was settled
// in between is named once, and never one of a lease call that is still out.
func (s *session) unknownHere(held []machine.Attempt) []machine.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var back []machine.Attempt
	seen := make(map[machine.Attempt]struct{})
	for _, id := range held {
		_, never := s.never[id]
		if s.attempts[id] != nil || never || s.isCalling(id) {
			continue
		}
		if _, again := s.strangers[id]; !again {
			seen[id] = struct{}{}
			continue
		}
		s.never[id] = struct{}{}
		back = append(back, id)
	}
	s.strangers = seen
	return back
}

// isCalling reports whether a lease call that is out could lease the generation.
func (s *session) isCalling(id machine.Attempt) bool {
	for c := range s.calls {
		for _, ref := range c.refs {
			if ref.Job == id.Job && ref.Generation == id.Generation {
				return true
			}
		}
	}
	return false
}

// running returns the attempts that are not settled.
func (s *session) running() []*attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*attempt, 0, len(s.attempts))
	for _, a := range s.attempts {
		all = append(all, a)
	}
	return all
}
