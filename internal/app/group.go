package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// ErrLoopEnded: a loop returned although nobody had asked it to.
var ErrLoopEnded = errors.New("it ended without being asked to")

// Group runs the loops of a process. A loop runs until its context ends; the first
// that ends sooner, by an error, a panic or a plain return, stops all others: a
// process that lost one of its loops must not look alive.
type Group struct {
	log   *slog.Logger
	loops []loop
}

type loop struct {
	name string
	run  func(context.Context) error
}

// NewGroup returns an empty group.
func NewGroup(log *slog.Logger) *Group { return &Group{log: log} }

// Add registers a loop by name; call it before Run.
func (g *Group) Add(name string, run func(ctx context.Context) error) {
	g.loops = append(g.loops, loop{name, run})
}

// Run starts all loops and returns when all have returned. It is nil when ctx ended
// and every loop ended because of that; else the first loop's error, joined with
// those that came while the others stopped. A loop's errors that only repeat that
// its context ended are no errors. Loops may take their time after ctx ended (to
// drain); Run waits for them.
func (g *Group) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error)
	for _, l := range g.loops {
		go func() {
			err := l.end(ctx, recovered(func() error { return l.run(ctx) }))
			if err != nil {
				cancel(err)
			}
			ended <- err
		}()
	}
	var errs []error
	for range g.loops {
		err := <-ended
		if err != nil {
			g.log.ErrorContext(ctx, "a loop failed; the process stops", "error", err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// end judges how a loop ended.
func (l loop) end(ctx context.Context, err error) error {
	switch {
	case err == nil && ctx.Err() == nil:
		return fmt.Errorf("loop %s: %w", l.name, ErrLoopEnded)
	case err == nil:
		return nil
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return nil
	default:
		return fmt.Errorf("loop %s: %w", l.name, err)
	}
}

// PanicError is a panic that was turned into an error.
type PanicError struct {
	// Value is what was panicked with.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

// Error shows the value and the stack: a panic is a defect, and its place is what
// repairs it.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Unwrap returns the value where it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// recovered calls f and returns its error, or a *PanicError.
func recovered(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
