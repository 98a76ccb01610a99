package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const printed = `File: bench
Type: cpu
Duration: 1.20s, Total samples = 60ms ( 5.00%)
-----------+-------------------------------------------------------
      10ms   internal/runtime/syscall.Syscall6
             syscall.Syscall
             net.(*conn).Write
             github.com/jackc/pgx/v5.(*Conn).SendBatch
             duly.dev/duly/internal/ledger.(*Ledger).Settle
             duly.dev/duly/internal/execute.(*settling).run
-----------+-------------------------------------------------------
      30ms   runtime.mallocgc
             runtime.growslice (inline)
             duly.dev/duly/internal/dispatch.pack
             duly.dev/duly/internal/dispatch.(*Dispatcher).Run
-----------+-------------------------------------------------------
      20ms   runtime.findRunnable
             runtime.schedule
             runtime.mcall
-----------+-------------------------------------------------------
`

func TestTracesAreReadAndSortedOut(t *testing.T) {
	t.Parallel()
	traces, err := parseTraces(strings.NewReader(printed))
	require.NoError(t, err)
	require.Len(t, traces, 3)
	require.Equal(t, 10*time.Millisecond, traces[0].took)
	require.Equal(t, "runtime.growslice", traces[1].frames[1])
	const rest = "Go's scheduler, and the rest"
	require.Equal(t, map[string]map[string]float64{
		"worker":     {"system calls": 10},
		"dispatcher": {"memory": 30},
		rest:         {rest: 20},
	}, sortOut(traces, 1000))
}

func TestProcessesAreKnownByTheirTitles(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]string{
		"postgres: duly: checkpointer \x00\x00":                   "checkpointer",
		"postgres: walwriter ":                                    "walwriter",
		"postgres: duly: autovacuum worker flat":                  "autovacuum",
		"postgres: duly: background writer ":                      "background writer",
		"postgres: duly: logical replication launcher ":           "others",
		"postgres: duly: duly bench_duly 127.0.0.1(50000) SELECT": "connections",
	} {
		require.Equal(t, want, processKind(title), title)
	}
}

func TestProfileReportHasBothSides(t *testing.T) {
	t.Parallel()
	f := profileFigures{
		Facts: facts{Cores: 2}, Lap: sampleOf(0.02),
		Go:         map[string]map[string]float64{"worker": {"ledger": 2, "memory": 1}, "dispatcher": {"memory": 0.5}},
		Postgres:   map[string]float64{"connections": 18, "walwriter": 0.5},
		Statements: []statement{{Name: "settle_done", Calls: 10, Millis: 8, WAL: 200_000}},
	}
	text := f.markdown()
	require.Contains(t, text, "10.0 µs of CPU a job in Duly and NATS, 20.0 in PostgreSQL, of 40.0 that 2 cores have")
	require.Contains(t, text, "| worker | 3.00 | 2.00 | 1.00 |")
	require.Contains(t, text, "| **all** | 3.50 | 2.00 | 1.50 |")
	require.Contains(t, text, "| `settle_done` | 10.0 | 8.00 | 200 |")
	require.Equal(t, []string{"connections", "walwriter"}, byWorth(f.Postgres))
	require.True(t, slices.IsSorted([]int{1, 2}))
}

func TestPeakIsReadFromTheKernel(t *testing.T) {
	t.Parallel()
	peak, err := peakOf([]byte("Name:\tworker\nVmPeak:\t  900 kB\nVmHWM:\t   61440 kB\nVmRSS:\t 100 kB\n"))
	require.NoError(t, err)
	require.Equal(t, int64(60<<20), peak)
	_, err = peakOf([]byte("Name:\tworker\n"))
	require.ErrorIs(t, err, errStat)
}

func TestMemoryReportHasALineAProgram(t *testing.T) {
	t.Parallel()
	f := memoryFigures{
		Grounds: []named{{"empty", "empty"}, {"history", "old jobs"}},
		Footprints: []measuredAt{
			{"worker", "hooks", "empty", footprint{60_000_000, 20}, 1000, 1},
			{"worker", "hooks", "history", footprint{101_000_000, 25}, 1000, 2},
		},
	}
	require.Contains(t, f.markdown(), "| worker | hooks | 60.0 | 20 | 1,000 | 101 | 25 | 500 | **missed** |")
}
