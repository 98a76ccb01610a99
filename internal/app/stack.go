package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Stack undoes what a process acquired, the last first. Push the teardown on the
// line after the acquisition: then whatever fails next, it is undone.
type Stack struct {
	log  *slog.Logger
	once sync.Once
	err  error

	mu       sync.Mutex
	stopped  bool
	teardown []teardown
}

type teardown struct {
	name  string
	bound time.Duration
	stop  func(context.Context) error
}

// NewStack returns an empty stack. Each teardown is logged at debug level.
func NewStack(log *slog.Logger) *Stack { return &Stack{log: log} }

// Push registers a teardown by name. It gets a context that ends after bound; one
// that does not return by then is left behind and reported as an error. On a stack
// that was stopped already the teardown runs at once.
func (s *Stack) Push(name string, bound time.Duration, stop func(context.Context) error) {
	t := teardown{name, bound, stop}
	s.mu.Lock()
	late := s.stopped
	if !late {
		s.teardown = append(s.teardown, t)
	}
	s.mu.Unlock()
	if late {
		if err := t.run(context.Background()); err != nil {
			s.log.Error("stopping what was acquired after the stop", "name", name, "error", err)
		}
	}
}

// Stop runs every teardown, the last registered first, and returns their errors
// joined. One that fails stops no other. Stop may be called again and from several
// goroutines: all wait for the one run and get its result. The end of ctx hurries
// nothing; each teardown has its own bound.
func (s *Stack) Stop(ctx context.Context) error {
	s.once.Do(func() {
		s.mu.Lock()
		s.stopped = true
		all := s.teardown
		s.teardown = nil
		s.mu.Unlock()

		var errs []error
		for _, t := range slices.Backward(all) {
			began := time.Now()
			err := t.run(context.WithoutCancel(ctx))
			s.log.DebugContext(ctx, "stopped", "name", t.name, "took", time.Since(began))
			errs = append(errs, err)
		}
		s.err = errors.Join(errs...)
	})
	return s.err
}

// run performs one teardown within its bound.
func (t teardown) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.bound)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- recovered(func() error { return t.stop(ctx) })
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("stopping %s: %w", t.name, err)
		}
		return nil
	case <-ctx.Done():
		select { // it may have returned because its context ended
		case err := <-done:
			if err == nil {
				return nil
			}
			return fmt.Errorf("stopping %s: %w", t.name, err)
		case <-time.After(grace):
			return fmt.Errorf("stopping %s: not done after %s; it was left behind", t.name, t.bound)
		}
	}
}

// grace is what a teardown has to return once its context ended.
const grace = 100 * time.Millisecond
