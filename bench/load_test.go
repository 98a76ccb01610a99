package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPayloadsHaveTheSizeThatWasAskedFor(t *testing.T) {
	t.Parallel()
	require.Len(t, `"`+Load{Payload: 100}.text(2)+`"`, 100)
	require.Len(t, Load{Payload: 1}.text(2), 1, "never empty")
}

func TestBatchesCoverEverythingOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[int]int)
	err := batches(t.Context(), 3, 1003, 100, func(_ context.Context, from, to int) error {
		require.LessOrEqual(t, to-from, 100)
		mu.Lock()
		defer mu.Unlock()
		for i := from; i < to; i++ {
			seen[i]++
		}
		return nil
	})
	require.NoError(t, err)
	require.Len(t, seen, 1003)
	for i, n := range seen {
		require.Equal(t, 1, n, i)
	}
}

func TestFirstErrorEndsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := together(t.Context(), 3, func(ctx context.Context, i int) error {
		if i == 0 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, broken)
	require.NoError(t, together(t.Context(), 2, func(context.Context, int) error { return nil }))
}

func TestHammerCountsWhatWasDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, err := hammer(t.Context(), 4, time.Second, func(ctx context.Context, _, _ int) error { return waitFor(ctx, 100*time.Millisecond) })
		require.NoError(t, err)
		require.Equal(t, 40, n)
	})
}

func TestDripKeepsItsRateWhateverTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var all [200]atomic.Int64
		n, err := drip(t.Context(), 100, 2*time.Second, func(ctx context.Context, i int, began time.Time) error {
			all[i].Add(int64(began.Sub(start)) + 1)
			return waitFor(ctx, time.Second)
		})
		require.NoError(t, err)
		require.Equal(t, 200, n)
		for i := range all {
			require.Equal(t, int64(i)*int64(10*time.Millisecond)+1, all[i].Load(), "each once, at its turn")
		}
		require.Equal(t, 2990*time.Millisecond, time.Since(start), "until the last is done")
	})
}

func TestDripEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		_, err := drip(t.Context(), 10, time.Hour, func(_ context.Context, i int, _ time.Time) error {
			if i == 3 {
				return broken
			}
			return nil
		})
		require.ErrorIs(t, err, broken)
	})
}

func TestTallyWaitsForTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		counted := newTally()
		go func() {
			for range 10 {
				if waitFor(t.Context(), time.Second) == nil {
					counted.add(10)
				}
			}
		}()
		start := time.Now()
		require.NoError(t, counted.wait(t.Context(), 95))
		require.Equal(t, 10*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, counted.wait(ctx, 101), "100 of 101 jobs were done")
	})
}

func TestStopwatchesTakeBothOrders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h Histogram
		watches := newStopwatches(&h)
		begin := time.Now()
		watches.start(1, begin)
		require.NoError(t, waitFor(t.Context(), time.Second))
		watches.stop(1)
		watches.stop(2) // it was done before its producer knew its number
		require.NoError(t, waitFor(t.Context(), time.Second))
		watches.start(2, begin)
		require.NoError(t, watches.tally.wait(t.Context(), 2))
		require.Equal(t, Latency{Jobs: 2, P50: 1000, P99: 1000, P999: 1000, Max: 1000}, h.Latency())
		require.Empty(t, watches.began)
		require.Empty(t, watches.ended)
	})
}
