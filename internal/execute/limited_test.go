package execute

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type limitedKey struct{}

// seen is what was seen of a context.
type seen struct {
	err, cause, child error
	ran               int32 // functions that were to run behind it
	value             any
}

// watched waits for the end of a context before, behind, or before and behind what do does
// to it, and says what was seen.
func watched(ctx context.Context, t *testing.T, waiting string, do func()) seen {
	t.Helper()
	var s seen
	var ran atomic.Int32
	var child context.Context
	wait := func() {
		var cancel context.CancelFunc
		child, cancel = context.WithCancel(ctx) //nolint:fatcontext // one a wait
		t.Cleanup(cancel)
		context.AfterFunc(ctx, func() { ran.Add(1) })
	}
	if waiting != "behind" {
		wait()
	}
	do()
	if waiting != "before" {
		wait()
	}
	synctest.Wait()
	s = seen{ctx.Err(), context.Cause(ctx), child.Err(), ran.Load(), ctx.Value(limitedKey{})}
	if s.err != nil {
		<-ctx.Done()
		<-child.Done()
		time.Sleep(2 * time.Second)
		require.Equal(t, s.err, ctx.Err(), "it stays what it was")
	}
	return s
}

// TestTheContextOfAnAttemptIsThatOfTheLibrary compares limited with what it stands for,
// whatever happens to it and whenever somebody waits for its end.
func TestTheContextOfAnAttemptIsThatOfTheLibrary(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for name, do := range map[string]func(end, endParent func()){
		"nothing":                         func(_, _ func()) {},
		"its limit":                       func(_, _ func()) { time.Sleep(limit) },
		"just before its limit":           func(_, _ func()) { time.Sleep(limit - 1) },
		"a sooner end":                    func(end, _ func()) { end() },
		"two sooner ends":                 func(end, _ func()) { end(); end() },
		"an end behind its limit":         func(end, _ func()) { time.Sleep(limit); synctest.Wait(); end() },
		"a limit behind its end":          func(end, _ func()) { end(); time.Sleep(limit) },
		"the parent's end":                func(_, endParent func()) { endParent() },
		"the parent's end behind its own": func(end, endParent func()) { end(); endParent() },
		"the parent's end behind a limit": func(_, endParent func()) { time.Sleep(limit); synctest.Wait(); endParent() },
	} {
		for _, waiting := range []string{"before", "behind", "before and behind"} {
			t.Run(name+", waited for "+waiting, func(t *testing.T) {
				t.Parallel()
				var got, want seen
				synctest.Test(t, func(t *testing.T) {
					parent, endParent := context.WithCancel(context.WithValue(t.Context(), limitedKey{}, "value"))
					defer endParent()
					ctx := &limited{parent: parent, until: time.Now().Add(limit)}
					defer ctx.cancel()
					got = watched(ctx, t, waiting, func() { do(ctx.cancel, endParent) })
				})
				synctest.Test(t, func(t *testing.T) {
					parent, endParent := context.WithCancel(context.WithValue(t.Context(), limitedKey{}, "value"))
					defer endParent()
					ctx, cancel := context.WithTimeout(parent, limit)
					defer cancel()
					want = watched(ctx, t, waiting, func() { do(cancel, endParent) })
				})
				require.Equal(t, want, got)
			})
		}
	}
}

// TestAnAttemptNobodyWaitsForEndsByTheClock: without a timer its error is right all the same.
func TestAnAttemptNobodyWaitsForEndsByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &limited{parent: t.Context(), until: time.Now().Add(time.Second)}
		time.Sleep(time.Second - 1)
		require.NoError(t, l.Err())
		time.Sleep(time.Nanosecond)
		require.Equal(t, context.DeadlineExceeded, l.Err())
		l.cancel()
		require.Equal(t, context.DeadlineExceeded, l.Err())
		<-l.Done()
		require.Equal(t, context.DeadlineExceeded, l.Err())
		require.Nil(t, l.Value(limitedKey{}))
	})
}
