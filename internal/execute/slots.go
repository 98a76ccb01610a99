package execute

import (
	"context"
	"slices"
	"sync"
)

// slots bound how many attempts of a lane run at once.
type slots struct {
	total int

	mu      sync.Mutex
	free    int
	waiting []slotWaiter
}

type slotWaiter struct {
	need int
	ok   chan struct{} // closed when there are as many
}

func newSlots(total int) *slots { return &slots{total: total, free: total} }

// wait returns how many slots are free once there are at least need; they are not
// taken. It returns ctx's error when ctx ends first.
func (s *slots) wait(ctx context.Context, need int) (int, error) {
	for {
		s.mu.Lock()
		if s.free >= need {
			free := s.free
			s.mu.Unlock()
			return free, ctx.Err()
		}
		w := slotWaiter{need, make(chan struct{})}
		s.waiting = append(s.waiting, w)
		s.mu.Unlock()
		select {
		case <-w.ok:
		case <-ctx.Done():
			s.forget(w)
			return 0, ctx.Err()
		}
	}
}

// idle waits until no slot is taken.
func (s *slots) idle(ctx context.Context) error {
	_, err := s.wait(ctx, s.total)
	return err
}

// take takes n slots, or as many as are free, and returns how many.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
	return n
}

// give gives n slots back.
func (s *slots) give(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	s.waiting = slices.DeleteFunc(s.waiting, func(w slotWaiter) bool {
		if s.free < w.need {
			return false
		}
		close(w.ok)
		return true
	})
}

func (s *slots) forget(w slotWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(other slotWaiter) bool { return other.ok == w.ok })
}

// available is how many are free now.
func (s *slots) available() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
