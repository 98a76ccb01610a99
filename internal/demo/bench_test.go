package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABenchmarkMeasuresEveryPhaseOnADurableStack(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	result, err := Bench(context.Background(), process(&out), BenchOptions{Jobs: 1500, Batch: 400, Samples: 3, Bus: BusMemory, JSON: true})
	require.NoError(t, err)
	require.Equal(t, "on", result.Settings["fsync"])
	require.Equal(t, "on", result.Settings["synchronous_commit"])
	require.Equal(t, "on", result.Settings["full_page_writes"])
	require.Len(t, result.Phases, 3)
	for _, p := range result.Phases {
		require.Equal(t, 1500, p.Jobs, p.Name)
		require.InDelta(t, float64(p.Jobs)/p.Seconds, p.JobsPerSecond, 1, p.Name)
	}
	l := result.Latency
	require.Equal(t, 3, l.Samples)
	require.Positive(t, l.BeginP50)
	require.GreaterOrEqual(t, l.DeliveredP50, l.BeginP50)
	require.GreaterOrEqual(t, l.DeliveredP99, l.DeliveredP50)

	var printed BenchResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &printed), "standard output holds the result and nothing else")
	require.Equal(t, result, printed)
}
