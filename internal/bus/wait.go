package bus

import (
	"context"
	"sync"
	"time"
)

// Pause waits for d. It ends before with ctx's error, or with ErrClosed when closed is.
func Pause(ctx context.Context, d time.Duration, closed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	}
}

// Turns let one of a consumer's callers in at a time, until it is closed.
type Turns struct {
	free   chan struct{} // holds one token: the right to go on
	closed chan struct{}
	ending sync.Once
}

// NewTurns makes turns that nobody has taken.
func NewTurns() *Turns {
	t := &Turns{free: make(chan struct{}, 1), closed: make(chan struct{})}
	t.free <- struct{}{}
	return t
}

// Take waits for a turn, which Give gives back. It ends before with ctx's error, or with
// ErrClosed after Close, or when quit is closed, which may be nil.
func (t *Turns) Take(ctx context.Context, quit <-chan struct{}) error {
	select {
	case <-t.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.closed:
		return ErrClosed
	case <-quit:
		return ErrClosed
	}
}

// Give gives a turn back.
func (t *Turns) Give() { t.free <- struct{}{} }

// Close ends Take, and reports whether that is new. Whoever has a turn is not interrupted,
// but finds Closed closed.
func (t *Turns) Close() (first bool) {
	t.ending.Do(func() {
		first = true
		close(t.closed)
	})
	return first
}

// Closed is closed by Close.
func (t *Turns) Closed() <-chan struct{} { return t.closed }

// Await waits for a turn, whatever happens.
func (t *Turns) Await() { <-t.free }

// Ended is the error with which a call that has its turn is to end, nil while it may go on.
func (t *Turns) Ended(ctx context.Context, quit <-chan struct{}) error {
	select {
	case <-t.closed:
		return ErrClosed
	case <-quit:
		return ErrClosed
	default:
		return ctx.Err()
	}
}
