package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"duly.dev/duly/internal/barchart"
	"github.com/stretchr/testify/require"
)

// sample is a sample at a rate of jobs a second, which takes one second.
func sample(contestant, measure string, round, rate int) Sample {
	return Sample{Contestant: contestant, Measure: measure, Round: round, Jobs: rate, Seconds: 1, ClientCPU: 0.5, ServerCPU: 0.25, WAL: int64(rate) * 900}
}

func TestRatiosAreOfTheSameRound(t *testing.T) {
	t.Parallel()
	all := cells(cellsOf([]Sample{
		sample("duly", "both", 1, 4000), sample("river", "both", 1, 1000),
		sample("duly", "both", 2, 9000), sample("river", "both", 2, 3000), // a fast moment of the machine
		sample("duly", "both", 3, 4000), sample("river", "both", 3, 800),
	}))
	river, ok := all.find("river", "both")
	require.True(t, ok)
	require.Equal(t, Spread{Median: 4, Min: 3, Max: 5, Rounds: 3}, river.Ratio)
	require.Equal(t, Spread{Median: 1000, Min: 800, Max: 3000, Rounds: 3}, river.Rate)
	require.InDelta(t, 500, river.ClientCPU.Median, 1e-9, "half a second over 1,000 jobs, in µs")
	require.InDelta(t, 250, river.ServerCPU.Median, 1e-9)
	require.InDelta(t, 900, river.WAL.Median, 1e-9)

	duly, ok := all.find("duly", "both")
	require.True(t, ok)
	require.Equal(t, Spread{Median: 1, Min: 1, Max: 1, Rounds: 3}, duly.Ratio)
	_, ok = all.find("river", "drain")
	require.False(t, ok)
}

func TestWhatWasNotMeasuredIsNoFigure(t *testing.T) {
	t.Parallel()
	all := cells(cellsOf([]Sample{
		sample("duly", "both", 1, 4000),
		{Contestant: "river", Measure: "both", Round: 1, Failed: "it ended"},
		sample("river", "both", 2, 1000), // Duly's was not measured in this round
		{Contestant: "river", Measure: "idle", Round: 1, Unable: "it never rests"},
		{Contestant: "duly", Measure: "idle", Round: 1, Seconds: 2, ClientCPU: 0.04, ServerCPU: 0.01},
	}))
	river, _ := all.find("river", "both")
	require.Equal(t, 1, river.Rate.Rounds)
	require.Zero(t, river.Ratio.Rounds)
	require.Equal(t, []string{"river, both: it ended"}, all.failed())

	idle, ok := all.find("river", "idle")
	require.False(t, ok)
	require.Equal(t, "it never rests", idle.Unable)
	idle, ok = all.find("duly", "idle")
	require.True(t, ok)
	require.InDelta(t, 2, idle.ClientCPU.Median, 1e-9, "percent of a core")
	require.Zero(t, idle.Rate.Rounds)
}

func TestTargetsAreJudgedByTheMedian(t *testing.T) {
	t.Parallel()
	verdicts := judge(cellsOf([]Sample{
		sample("duly", "both", 1, 3000), sample("river", "both", 1, 1000), sample("duly-sync", "both", 1, 2400), sample("raw-unnest", "insert", 1, 10_000),
		{Contestant: "duly", Measure: "latency-500", Round: 1, Jobs: 10, Seconds: 1, Latency: &Latency{Jobs: 10, P50: 10, P99: 15}},
	}))
	by := make(map[string]Verdict, len(verdicts))
	for _, v := range verdicts {
		by[v.What] = v
	}
	require.Equal(t, "**missed**: 75 % of the target", by["insert and work at once, against River"].By())
	require.Equal(t, "not measured", by["insert and work at once, against Graphile Worker"].By())
	require.InDelta(t, 0.3, by["insert and work at once, against the raw unnest insert of the same row"].Measured.Median, 1e-9)
	require.Equal(t, "met: 1.07 × the target", by["NATS with sync_interval: always, against its default"].By())
	require.Equal(t, "**missed**: 2.00 × the bound", by["enqueue to durably done at 500/s with defaults, p50"].By())
	require.Equal(t, "met: 75 % of the bound", by["enqueue to durably done at 500/s with defaults, p99"].By())
}

func TestQuotientsOfSpreadsAreBetweenWorstAndBest(t *testing.T) {
	t.Parallel()
	a, b := Spread{Median: 10, Min: 8, Max: 12, Rounds: 5}, Spread{Median: 5, Min: 4, Max: 8, Rounds: 3}
	require.Equal(t, Spread{Median: 2, Min: 1, Max: 3, Rounds: 3}, quotient(a, b))
	require.Zero(t, quotient(a, Spread{}))
	require.Equal(t, Spread{Median: 0.1, Min: 1.0 / 12, Max: 0.125, Rounds: 5}, inverse(a))
	require.Zero(t, inverse(Spread{}))
}

func TestNumbersAreShownShort(t *testing.T) {
	t.Parallel()
	for shown, f := range map[string]float64{"0.00": 0, "3.14": 3.14159, "31.4": 31.4159, "314": 314.159, "3,142": 3141.59, "1,234,567": 1234567, "-3,142": -3141.59} {
		require.Equal(t, shown, number(f))
	}
	require.Equal(t, "–", show(Spread{}))
	require.Equal(t, "5.00", show(Spread{Median: 5, Min: 5, Max: 5, Rounds: 1}))
	require.Equal(t, "5.00 (4.00–6.00)", show(Spread{Median: 5, Min: 4, Max: 6, Rounds: 5}))
}

// reported is a small report.
func reported() Report {
	samples := []Sample{
		sample("duly", "insert", 1, 100_000), sample("river", "insert", 1, 50_000),
		sample("duly", "both", 1, 60_000), sample("river", "both", 1, 15_000),
		{Contestant: "river", Measure: "drain", Round: 1, Failed: "it ended"},
		{Contestant: "duly", Measure: "idle", Round: 1, Seconds: 1, ClientCPU: 0.01},
		{Contestant: "duly", Measure: "latency-500", Round: 1, Jobs: 10, Seconds: 1, Latency: &Latency{Jobs: 10, P50: 4.5, P99: 15, P999: 16}},
		sample("raw-copy", "insert", 1, 200_000),
	}
	return Report{
		At: time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC), Commit: "abc", Machine: []Setting{{"CPUs", "2"}}, Server: []Setting{{"fsync", "on"}, {"preload", ""}},
		Plan: Plan{Rounds: 1, Jobs: 100_000, Load: Load{Payload: 100}},
		Contestants: []Participant{
			{Key: "duly", Name: "Duly", Group: Peers, Version: "v1", Settings: []Setting{{"slots", "2"}}},
			{Key: "river", Name: "River", Group: Peers, Version: "v2", Settings: []Setting{{"workers", "a|b"}, {"unequal", "it forgets"}}},
			{Key: "late", Name: "Late <queue>", Group: Peers, Absent: "node is not installed"},
			{Key: "duly-sync", Name: "Duly, sync", Group: Variants, Version: "v1", Settings: []Setting{{"slots", "2"}, {"NATS", "always"}}},
			{Key: "raw-copy", Name: "COPY", Group: Limits, Version: "15"},
		},
		Cells: cellsOf(samples), Targets: judge(cellsOf(samples)), Samples: samples,
	}
}

func TestReportShowsEverybodyAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, reported().markdown(&b))
	for _, line := range []string{
		"Measured 1 October 2026 at `abc`: one round, 100,000 jobs a bulk measurement",
		"| insert and work at once, against River | ≥ 4.00 × | 4.00 | met: 1.00 × the target |",
		"| Duly | 100,000 | – | 60,000 | – | – |",
		"| River \\* | 50,000 · 2.00 × | – | 15,000 · 4.00 × | – | – |",
		"\\* River: it forgets.\n",
		"| Duly | 4.50 | 15.0 | 16.0 | – | – | – |",
		"| Duly | 8.33 | 4.17 | 900 | – | 1.00 | 0.00 |",
		"| COPY | 200,000 | 2.50 | 1.25 | 900 |",
		"- Late <queue> did not take part: node is not installed",
		"- failed: river, drain: it ended",
		"- PostgreSQL, for everybody: fsync on, preload (none)",
		"- **Duly, sync** v1\n  - NATS: always\n",
	} {
		require.Contains(t, b.String(), line)
	}
	require.Equal(t, 1, strings.Count(b.String(), "slots"), "a variant says only what is its own")
}

func TestTablesKeepTheirColumns(t *testing.T) {
	t.Parallel()
	table := newTable(true, "", "a", "b")
	table.row("x|y", "1")
	require.Equal(t, "|  | a | b |\n|---|---:|---:|\n| x\\|y | 1 |  |\n", table.String())
}

func TestChartIsWellFormed(t *testing.T) {
	t.Parallel()
	r := reported()
	r.Contestants[0].Name = "<Duly> & co"
	var b bytes.Buffer
	require.NoError(t, barchart.Write(&b, r.panels()))
	text := b.String()
	decoder := xml.NewDecoder(&b)
	elements := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	require.Equal(t, map[string]int{"svg": 1, "rect": 1 + 3 + 2, "line": 3 + 2, "text": 2 + 2*(3+2)}, elements, "a background, two panels, bars of three and of two")
	require.Contains(t, text, "&lt;Duly&gt; &amp; co")
	require.Contains(t, text, "50,000 (Duly: 2.00 ×)")
}
