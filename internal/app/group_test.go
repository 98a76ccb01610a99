package app

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// untilTold is a loop that ends when it is asked to.
func untilTold(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAGroupEndsWithoutErrorWhenItIsAskedTo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	g := NewGroup(quiet())
	g.Add("returns the context's error", untilTold)
	g.Add("returns nothing", func(ctx context.Context) error { <-ctx.Done(); return nil })
	g.Add("returns the cause", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	g.Add("asks for it", func(ctx context.Context) error { cancel(Interrupted{}); <-ctx.Done(); return nil })
	require.NoError(t, g.Run(ctx))
}

func TestTheFirstLoopThatFailsStopsAllOthers(t *testing.T) {
	t.Parallel()
	broken, worse := errors.New("broken"), errors.New("worse")
	g := NewGroup(quiet())
	stopped := false
	g.Add("good", func(ctx context.Context) error {
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), broken) {
			t.Error("the cause is the failure")
		}
		stopped = true
		return nil
	})
	g.Add("bad", func(context.Context) error { return broken })
	g.Add("fails while stopping", func(ctx context.Context) error { <-ctx.Done(); return worse })
	err := g.Run(t.Context())
	require.True(t, stopped, "Run returns when all loops have")
	require.ErrorContains(t, err, "loop bad: broken")
	require.ErrorIs(t, err, worse)
}

func TestALoopThatReturnsUnaskedStopsTheProcess(t *testing.T) {
	t.Parallel()
	g := NewGroup(quiet())
	g.Add("good", untilTold)
	g.Add("done too soon", func(context.Context) error { return nil })
	err := g.Run(t.Context())
	require.ErrorIs(t, err, ErrLoopEnded)
	require.ErrorContains(t, err, "done too soon")
}

func TestAPanicInALoopIsAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	cause := errors.New("nil map")
	g := NewGroup(quiet())
	g.Add("good", untilTold)
	g.Add("defective", func(context.Context) error { panic(cause) })
	err := g.Run(t.Context())
	var panicked *PanicError
	require.ErrorAs(t, err, &panicked)
	require.ErrorIs(t, err, cause)
	require.Contains(t, string(panicked.Stack), "TestAPanicInALoopIsAnErrorWithItsStack")
	require.ErrorContains(t, err, "loop defective: panic: nil map")
}
