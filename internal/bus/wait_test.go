package bus_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

func TestPauseEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, closed := time.Now(), make(chan struct{})
		require.NoError(t, bus.Pause(t.Context(), time.Minute, closed))
		require.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, bus.Pause(ctx, time.Minute, closed), context.DeadlineExceeded)
		close(closed)
		require.ErrorIs(t, bus.Pause(t.Context(), time.Minute, closed), bus.ErrClosed)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestTurnsAreTakenOneAtATime(t *testing.T) {
	t.Parallel()
	turns, quit := bus.NewTurns(), make(chan struct{})
	require.NoError(t, turns.Take(t.Context(), quit))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, turns.Take(ctx, quit), context.Canceled)
	require.ErrorIs(t, turns.Ended(ctx, quit), context.Canceled)
	turns.Give()
	require.NoError(t, turns.Take(t.Context(), nil))
	require.NoError(t, turns.Ended(t.Context(), quit))
	close(quit)
	require.ErrorIs(t, turns.Take(t.Context(), quit), bus.ErrClosed)
	require.ErrorIs(t, turns.Ended(t.Context(), quit), bus.ErrClosed)
	require.True(t, turns.Close())
	require.False(t, turns.Close())
	require.ErrorIs(t, turns.Take(t.Context(), nil), bus.ErrClosed)
	require.ErrorIs(t, turns.Ended(ctx, nil), bus.ErrClosed, "that comes first")
	turns.Give()
	turns.Await()
}
