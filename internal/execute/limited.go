package execute

import (
	"context"
	"errors"
	"sync"
	"time"
)

// limited is the context of an attempt, which ends at its limit. It is what
// context.WithDeadline makes of parent, made only when somebody waits for its end: most
// handlers do not, and a timer and a place in the parent's list cost more than they do.
// Until then it looks at the clock when it is asked.
type limited struct {
	parent context.Context //nolint:containedctx // it is a context
	until  time.Time

	mu     sync.Mutex
	err    error              // why it ended before anybody waited
	waited context.Context    //nolint:containedctx // set once somebody waited
	end    context.CancelFunc // of waited
}

var _ context.Context = (*limited)(nil)

// start begins with it: it ends at the instant, or when parent does.
func (l *limited) start(parent context.Context, until time.Time) { l.parent, l.until = parent, until }

// restart moves the end of one that has not ended and that nobody waits for.
func (l *limited) restart(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waited == nil && l.err == nil {
		l.until = until
	}
}

// Deadline is the end of the limit.
func (l *limited) Deadline() (time.Time, bool) { return l.until, true }

// Done is closed at the end.
func (l *limited) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waited == nil {
		l.waited, l.end = l.made(l.ended(time.Now()))
	}
	return l.waited.Done()
}

// made makes what is waited for, which has ended already where err says why.
func (l *limited) made(err error) (context.Context, context.CancelFunc) {
	switch {
	case err == nil:
		return context.WithDeadline(l.parent, l.until)
	case errors.Is(err, context.DeadlineExceeded):
		return context.WithDeadline(context.WithoutCancel(l.parent), l.until)
	}
	ctx, cancel := context.WithCancel(l.parent)
	cancel()
	return ctx, cancel
}

// Err is context.DeadlineExceeded after the limit, context.Canceled after a sooner end.
func (l *limited) Err() error { return l.errAt(time.Now()) }

// errAt is Err where the time is known already.
func (l *limited) errAt(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waited != nil {
		return l.waited.Err()
	}
	return l.ended(now)
}

// ended is why it has ended at now, where nobody has waited; once that is said, it stays.
func (l *limited) ended(now time.Time) error {
	switch {
	case l.err != nil:
	case !now.Before(l.until):
		l.err = context.DeadlineExceeded
	default:
		l.err = l.parent.Err()
	}
	return l.err
}

// Value is the parent's. Where somebody waits it is of the context that is waited for,
// so that contexts made of this one find each other as the library's own do.
func (l *limited) Value(key any) any {
	l.mu.Lock()
	from := l.waited
	l.mu.Unlock()
	if from == nil {
		from = l.parent
	}
	return from.Value(key)
}

// cancel ends it.
func (l *limited) cancel() {
	l.mu.Lock()
	end := l.end
	if end == nil && l.ended(time.Now()) == nil {
		l.err = context.Canceled
	}
	l.mu.Unlock()
	if end != nil {
		end()
	}
}
