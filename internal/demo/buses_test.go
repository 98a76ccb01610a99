package demo

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/app"
)

func TestBusesAreComparedRoundByRound(t *testing.T) {
	t.Parallel()
	of := func(rates ...float64) (all []BenchResult) {
		for _, r := range rates {
			all = append(all, BenchResult{Phases: []Phase{{Name: "deliver", JobsPerSecond: r}}})
		}
		return all
	}
	// A slow minute of the machine in the second round is slow for both.
	got := compareBuses(of(100, 50, 110), of(90, 45, 88))
	require.Equal(t, []BusPhase{{Name: "deliver", NATS: 100, Kafka: 88, Ratio: 0.9}}, got)
	require.InDelta(t, 2, median([]float64{3, 1, 2, 4}), 0)
	var out bytes.Buffer
	require.NoError(t, BusComparison{Rounds: 3, Phases: got}.print(&out))
	require.Contains(t, out.String(), "0.90×")
}

// The broker in memory keeps nothing: its figures are never shown.
func TestKafkaIsMeasuredOnARealBrokerOnly(t *testing.T) {
	t.Setenv("DULY_BUS_URL", "nats://bus:4222")
	for _, bus := range []string{BusKafka, BusBoth} {
		var out bytes.Buffer
		var err error
		if bus == BusBoth {
			_, err = BenchBuses(t.Context(), process(&out), BenchOptions{}, 1)
		} else {
			_, err = Bench(t.Context(), process(&out), BenchOptions{Bus: bus})
		}
		require.ErrorIs(t, err, ErrNoBroker, bus)
		require.Equal(t, app.ExitUsage, app.ExitCode(err))
	}
}
