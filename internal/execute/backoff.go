package execute

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// pause is the wait between tries of what only time can repair: 50 ms at first, 5 s
// at most, with jitter, without end.
type pause struct{ next *backoff.ExponentialBackOff }

func newPause() *pause {
	return &pause{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))}
}

// wait waits for the next try, or until ctx ends.
func (p *pause) wait(ctx context.Context) { sleep(ctx, p.next.NextBackOff()) }

// reset begins anew after a success.
func (p *pause) reset() { p.next.Reset() }

// sleep waits for d; false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
