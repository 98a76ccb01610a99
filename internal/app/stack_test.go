package app

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStackStopsTheLastFirstAndJoinsErrors(t *testing.T) {
	t.Parallel()
	var order []string
	s := NewStack(quiet())
	broken := errors.New("broken")
	for _, name := range []string{"ledger", "bus", "admin"} {
		s.Push(name, time.Second, func(context.Context) error {
			order = append(order, name)
			switch name {
			case "bus":
				return broken
			case "admin":
				panic("a defect")
			}
			return nil
		})
	}
	err := s.Stop(t.Context())
	require.Equal(t, []string{"admin", "bus", "ledger"}, order)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "stopping bus: broken")
	require.ErrorAs(t, err, new(*PanicError))
}

func TestStopRunsOnceHoweverOftenItIsCalled(t *testing.T) {
	t.Parallel()
	s := NewStack(quiet())
	stops := 0
	broken := errors.New("broken")
	s.Push("once", time.Second, func(context.Context) error { stops++; return broken })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.Stop(t.Context()); !errors.Is(err, broken) {
				t.Errorf("every caller gets the result, one got %v", err)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, stops)
}

func TestATeardownThatHangsIsLeftBehindAfterItsBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStack(quiet())
		release := make(chan struct{})
		stopped := false
		s.Push("first acquired", time.Minute, func(context.Context) error { stopped = true; return nil })
		s.Push("hanging", 3*time.Second, func(context.Context) error { <-release; return nil })
		began := time.Now()
		err := s.Stop(t.Context())
		require.EqualError(t, err, "stopping hanging: not done after 3s; it was left behind")
		require.True(t, stopped, "what was acquired before is stopped all the same")
		require.Equal(t, 3*time.Second+grace, time.Since(began))
		close(release)
	})
}

func TestATeardownIsToldWhenItsBoundIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStack(quiet())
		s.Push("obedient", time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		require.ErrorIs(t, s.Stop(ended), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began), "the end of the caller's context hurries nothing")
	})
}

func TestWhatIsPushedAfterTheStopIsStoppedAtOnce(t *testing.T) {
	t.Parallel()
	s := NewStack(quiet())
	require.NoError(t, s.Stop(t.Context()))
	stopped := false
	s.Push("late", time.Second, func(context.Context) error { stopped = true; return nil })
	require.True(t, stopped)
}
