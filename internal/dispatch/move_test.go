package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/bus"
)

// mover is a bus whose delayed messages have to be moved.
type mover struct {
	Bus
	calls atomic.Int64
}

func (m *mover) Move(ctx context.Context, _ bus.SetAside) error {
	if m.calls.Add(1) <= 2 {
		return errors.New("no group can be joined")
	}
	<-ctx.Done()
	return ctx.Err()
}

// TestBusThatNeedsItIsMoved, again and again while that fails, and beside everything else.
func TestBusThatNeedsItIsMoved(t *testing.T) {
	t.Parallel()
	inWorld(t, func(w *world) {
		m := &mover{Bus: w.broker.Connect()}
		defer w.dispatcher(func(o *Options) { o.Bus = m })()
		w.enqueue("main", 1)
		<-time.After(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 3, m.calls.Load())
		require.Positive(t, w.broker.Depth("main"), "the relay does not wait for it")
	})
}
