// Package pause waits: for an instant, or longer and longer between tries of what only
// time can repair. What is durable, the retries of jobs, is decided by the machine; this
// is for calls of a server that is away.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d, and reports whether it did so to the end; false when ctx ended first.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

const (
	firstWait   = 50 * time.Millisecond
	longestWait = 5 * time.Second
)

// Backoff says how long to wait after failures in a row: 50 ms, doubling to 5 s, of each
// a random half to the whole, so that processes that failed together do not come back
// together. The clock draws, since no two processes read it at one nanosecond: so a
// simulation, whose clock is its own, draws the same again. Its zero value is ready; it is
// one goroutine's.
type Backoff struct{ failures int }

// Next notes a failure, and returns how long to wait before the next try.
func (b *Backoff) Next() time.Duration {
	wait := longestWait
	if b.failures < 7 {
		wait = firstWait << b.failures
		b.failures++
	}
	draw := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(b.failures))) //nolint:gosec // a seed takes any bits, and nothing secret is drawn
	return wait/2 + time.Duration(draw.Int64N(int64(wait/2)))
}

// Reset notes a success.
func (b *Backoff) Reset() { b.failures = 0 }
