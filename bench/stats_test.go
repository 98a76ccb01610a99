package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpreadIsTheMedianBetweenLeastAndGreatest(t *testing.T) {
	t.Parallel()
	require.Equal(t, Spread{}, spread(nil))
	require.Equal(t, Spread{Median: 7, Min: 7, Max: 7, Rounds: 1}, spread([]float64{7}))
	require.Equal(t, Spread{Median: 3, Min: 1, Max: 9, Rounds: 3}, spread([]float64{9, 1, 3}))
	require.Equal(t, Spread{Median: 4, Min: 1, Max: 9, Rounds: 4}, spread([]float64{9, 1, 3, 5}), "of an even number, the mean of the two in the middle")
}

func TestPercentilesAreByNearestRank(t *testing.T) {
	t.Parallel()
	var h Histogram
	require.Equal(t, Latency{}, h.Latency())
	for _, i := range rand.Perm(1000) {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	require.Equal(t, Latency{Jobs: 1000, P50: 500, P99: 990, P999: 999, Max: 1000}, h.Latency())

	var one Histogram
	one.Add(1500 * time.Microsecond)
	require.Equal(t, Latency{Jobs: 1, P50: 1.5, P99: 1.5, P999: 1.5, Max: 1.5}, one.Latency())
}
