package smtpchan

import (
	"context"
	"sync"
	"time"
)

// pool bounds the sessions and keeps those that are unused for a while.
type pool struct {
	// slots has one element for each session that is in use.
	slots chan struct{}
	keep  time.Duration

	mu     sync.Mutex
	idle   []*session
	closed bool
}

func newPool(sessions int, keep time.Duration) *pool {
	return &pool{slots: make(chan struct{}, sessions), keep: keep}
}

// enter waits for a slot, until ctx ends. leave gives it back.
func (p *pool) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		if err := ctx.Err(); err != nil { // both came at once
			p.leave()
			return err
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) leave() { <-p.slots }

// take returns the session that was used last, or nil.
func (p *pool) take() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	s := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	s.expire.Stop()
	return s
}

// put keeps a session for the next one who takes it, or ends it if the pool is
// closed.
func (p *pool) put(s *session) {
	if !p.add(s) {
		s.quit()
	}
}

func (p *pool) add(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	s.expire = time.AfterFunc(p.keep, func() {
		if p.remove(s) {
			s.quit()
		}
	})
	p.idle = append(p.idle, s)
	return true
}

// remove takes a session out and reports whether it was still there.
func (p *pool) remove(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.idle {
		if other == s {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return true
		}
	}
	return false
}

// close ends the unused sessions, and those in use when they are put back.
func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, s := range idle {
		s.expire.Stop()
		s.quit()
	}
}
