package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/pause"
)

func TestForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.True(t, pause.For(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.False(t, pause.For(ctx, time.Minute))
		require.Equal(t, time.Minute+time.Second, time.Since(began))
		require.False(t, pause.For(ctx, 0), "not even for nothing")
		require.True(t, pause.For(t.Context(), -1))
	})
}

func TestBackoffDoublesToItsBoundAndBeginsAnew(t *testing.T) {
	t.Parallel()
	var b pause.Backoff
	for range 2 {
		for _, most := range []int64{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			ms := b.Next().Milliseconds()
			require.GreaterOrEqual(t, ms, most/2)
			require.Less(t, ms, most)
		}
		b.Reset()
	}
}
