package execute

import (
	"context"
	"sync"
	"time"
)

// board shows the current session to everybody.
type board struct {
	mu      sync.Mutex
	current *session
	// all are the current session and older ones with attempts that still run.
	all     []*session
	changed chan struct{} // closed and replaced when anything changes
}

func newBoard() *board { return &board{changed: make(chan struct{})} }

func (b *board) notify() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// open makes the session current.
func (b *board) open(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current, b.all = s, append(b.all, s)
	b.notify()
}

// renewed lets those look again who wait for a fresh lease.
func (b *board) renewed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notify()
}

// end ends the session for good, and with it the contexts of its Go handlers. It
// reports whether it was this call that did.
func (b *board) end(s *session) bool {
	if s.ended.Swap(true) {
		return false
	}
	close(s.over)
	b.mu.Lock()
	if b.current == s {
		b.current = nil
	}
	b.notify()
	b.mu.Unlock()
	s.cutHandlers()
	return true
}

// fresh waits for a session whose lease is good for what is needed; it returns ctx's
// error when ctx ends first.
func (b *board) fresh(ctx context.Context, need time.Duration) (*session, error) {
	for {
		b.mu.Lock()
		s, changed := b.current, b.changed
		b.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s != nil && s.fresh(need) {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// sessions returns the current session and the older ones that still run
// attempts; it forgets those that do not.
func (b *board) sessions() []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.all[:0:0]
	for _, s := range b.all {
		if s == b.current || len(s.running()) > 0 {
			kept = append(kept, s)
		}
	}
	b.all = kept
	return kept
}
