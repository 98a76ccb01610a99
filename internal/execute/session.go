package execute

import (
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// session is one registration of the process in the ledger, with all that hangs on
// it: the lease clock, and what is leased and not yet settled.
type session struct {
	worker machine.Worker
	wall   func() time.Time // the wall clock, without a monotonic reading

	mu       sync.Mutex
	sent     time.Time // when the last renewal that succeeded was sent
	sentWall time.Time
	ended    bool
	over     chan struct{} // closed when ended
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

// newSession begins a session whose registration was sent at the given instant.
func newSession(w machine.Worker, wall func() time.Time, sent, sentWall time.Time) *session {
	return &session{
		worker: w, wall: wall, sent: sent, sentWall: sentWall,
		over: make(chan struct{}), attempts: make(map[machine.Attempt]*attempt), calls: make(map[*call]struct{}), never: make(map[machine.Attempt]struct{}),
	}
}

// maxJump is how far the wall clock may move against the monotonic one between two
// renewals. Clocks are slewed by less; a suspended machine moves by more, or by so
// little that the pause bound covers it.
const maxJump = time.Second

// left is how much of the lease is left; where none is, why. The lease counts from
// when the last renewal was sent, and as lost where the clocks disagree.
func (s *session) left() (time.Duration, refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := time.Since(s.sent)
	switch jump := s.wall().Sub(s.sentWall) - elapsed; {
	case s.ended:
		return 0, refusedEnded
	case jump > maxJump || jump < -maxJump:
		return 0, refusedSuspended
	}
	return s.worker.LeaseTime - elapsed, refusedLease
}

// fresh reports whether more than half of the lease is left, and as much as is
// needed: below that, leasing would only hand back.
func (s *session) fresh(need time.Duration) bool {
	left, _ := s.left()
	return left > max(need, s.worker.LeaseTime/2)
}

func (s *session) renewed(sent, sentWall time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.sentWall = sent, sentWall
}

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
