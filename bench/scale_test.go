package main

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestDemandIsTheRateTimesTheCosts(t *testing.T) {
	t.Parallel()
	p := perJob{Go: 10, Postgres: 20, WAL: 1000, Kept: 500, Keys: 100, Bus: 25, Wire: 250}
	d := p.at(1000, 30)
	require.InDelta(t, 0.01, d.GoCores, 1e-9)
	require.InDelta(t, 0.02, d.PostgresCores, 1e-9)
	require.InDelta(t, 1, d.WAL, 1e-9, "megabytes a second")
	require.InDelta(t, 0.2, d.Bus, 1e-9, "megabits a second")
	require.InDelta(t, 2, d.Wire, 1e-9)
	require.InDelta(t, 43.2, d.Day, 1e-9, "1,000 jobs of 500 bytes each second of a day")
	require.InDelta(t, 30*43.2, d.Retention, 1e-9)
	require.InDelta(t, 365*8.64, d.Keys, 1e-9)
}

// sampleOf is a sample of 1,000 jobs in so many seconds.
func sampleOf(seconds float64) Sample {
	return Sample{Jobs: 1000, Seconds: seconds, ClientCPU: 0.01, ServerCPU: 0.02, WAL: 1_000_000, Latency: &Latency{P50: 2, P99: 8}}
}

func TestScaleReportHasWhatAnOperatorPlansWith(t *testing.T) {
	t.Parallel()
	fleetOf := func(workers int) fleetFigures {
		return fleetFigures{
			sizeOf: sizeOf{workers, 10}, Registered: 1.5, Connections: 4 * workers,
			Idle: sampleOf(10), Both: sampleOf(0.02), Latency: sampleOf(1),
			Statements: []statement{{Name: "worker_heartbeat", Calls: int64(2 * workers), Millis: float64(workers)}},
		}
	}
	text := scaleFigures{
		Plan: scaleCommand{Rounds: 1, Jobs: 1000, Slots: 10}, One: []Sample{sampleOf(0.02)}, Two: []Sample{sampleOf(0.025)},
		Small: []fleetFigures{fleetOf(1)}, Large: []fleetFigures{fleetOf(100)},
		Wire: wireFigures{Bus: 25, Postgres: 250, Pack: 500}, Disk: diskFigures{Kept: 500, Keys: 100},
	}.markdown()
	require.Contains(t, text, "| one ledger | 50,000 | 10.0 | 20.0 | 1,000 |")
	require.Contains(t, text, "| two of one | 0.80 | 1.00 |")
	require.Contains(t, text, "|  | 1 worker of 10 slots | 100 workers of 10 slots |")
	require.Contains(t, text, "| idle: heartbeats a second | 0.20 | 20.0 |")
	require.Contains(t, text, "| connections to PostgreSQL | 4.00 | 400 |")
	require.Contains(t, text, "| 1,000 | 0.01 | 0.02 | 1.00 | 0.20 | 2.00 | 43.2 | 1,296 | 3,154 |")
}

func TestProxyCountsWhatPasses(t *testing.T) {
	t.Parallel()
	s := stackOf(t)
	p, through, err := startProxy(t.Context(), s.postgres.URL())
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), through)
	require.NoError(t, err)
	before := p.bytes()
	var text string
	require.NoError(t, conn.QueryRow(t.Context(), "select repeat('x', 10000)").Scan(&text))
	require.Greater(t, p.bytes()-before, int64(10_000))
	require.Less(t, p.bytes()-before, int64(11_000))
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, p.stop())
}

func TestFleetRegistersWorksAndEnds(t *testing.T) {
	t.Parallel()
	f, err := measureFleet(t.Context(), watchedStackOf(t), sizeOf{3, 10}, fleetPlan{jobs: 200, pack: 10, idle: 100 * time.Millisecond, latency: 200 * time.Millisecond, hasty: true})
	require.NoError(t, err)
	require.Equal(t, 200, f.Both.Jobs)
	require.Equal(t, 100, f.Latency.Jobs)
	require.GreaterOrEqual(t, f.Connections, 3, "each worker has its own")
}
