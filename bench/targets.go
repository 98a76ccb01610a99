package main

import (
	"fmt"
	"strconv"
)

// Verdict is a target and what was measured.
type Verdict struct {
	// What is measured, in words.
	What string `json:"what"`
	// Wanted is the bound: at least it, or at most it where AtMost is set, in Unit.
	Wanted float64 `json:"wanted"`
	AtMost bool    `json:"at_most,omitempty"`
	Unit   string  `json:"unit"`
	// Measured has no rounds where it was not.
	Measured Spread `json:"measured"`
}

// Met reports whether the median meets the target; it means nothing where nothing was
// measured.
func (v Verdict) Met() bool {
	if v.AtMost {
		return v.Measured.Median <= v.Wanted
	}
	return v.Measured.Median >= v.Wanted
}

// By is how the median compares with what was wanted, in words.
func (v Verdict) By() string {
	switch {
	case v.Measured.Rounds == 0:
		return "not measured"
	case v.AtMost && v.Met():
		return fmt.Sprintf("met: %s of the bound", percent(v.Measured.Median/v.Wanted))
	case v.AtMost:
		return fmt.Sprintf("**missed**: %.2f × the bound", v.Measured.Median/v.Wanted)
	case v.Met():
		return fmt.Sprintf("met: %.2f × the target", v.Measured.Median/v.Wanted)
	}
	return fmt.Sprintf("**missed**: %s of the target", percent(v.Measured.Median/v.Wanted))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

// judge compares what was measured with the targets.
func judge(all cells) []Verdict {
	rate := func(contestant, measure string) Spread {
		c, _ := all.find(contestant, measure)
		return c.Rate
	}
	ratio := func(contestant, measure string) Spread {
		c, _ := all.find(contestant, measure)
		return c.Ratio
	}
	duly := func(measure string) Cell {
		c, _ := all.find(reference, measure)
		return c
	}
	return []Verdict{
		{What: "insert and work at once, against River", Wanted: 4, Unit: "×", Measured: ratio("river", "both")},
		{What: "insert and work at once, against Graphile Worker", Wanted: 2, Unit: "×", Measured: ratio("graphile", "both")},
		{What: "insert and work at once, against the raw unnest insert of the same row", Wanted: 0.33, Unit: "×", Measured: quotient(duly("both").Rate, rate("raw-unnest", "insert"))},
		{What: "bulk enqueue", Wanted: 100_000, Unit: "rows/s", Measured: duly("insert").Rate},
		{What: "one job a transaction from 32 clients, against River", Wanted: 1.5, Unit: "×", Measured: ratio("river", "singles-32")},
		{What: "enqueue to durably done at 500/s with defaults, p50", Wanted: 5, AtMost: true, Unit: "ms", Measured: duly("latency-500").P50},
		{What: "enqueue to durably done at 500/s with defaults, p99", Wanted: 20, AtMost: true, Unit: "ms", Measured: duly("latency-500").P99},
		{What: "an idle process (scheduler, dispatcher, worker and NATS server in one)", Wanted: 1, AtMost: true, Unit: "% of a core", Measured: duly("idle").ClientCPU},
		{What: "write-ahead log, insert and work at once", Wanted: 1400, AtMost: true, Unit: "B a job", Measured: duly("both").WAL},
		{What: "NATS with sync_interval: always, against its default", Wanted: 0.75, Unit: "×", Measured: inverse(ratio("duly-sync", "both"))},
		{What: "HTTP effects against a local receiver, one worker", Wanted: 8000, Unit: "effects/s", Measured: rate("duly-http", "both")},
	}
}

// quotient divides figures of different measurements: medians by medians, and what is
// least and greatest by what could be worst and best.
func quotient(a, b Spread) Spread {
	if a.Rounds == 0 || b.Rounds == 0 {
		return Spread{}
	}
	return Spread{Median: a.Median / b.Median, Min: a.Min / b.Max, Max: a.Max / b.Min, Rounds: min(a.Rounds, b.Rounds)}
}

// inverse turns ratios over.
func inverse(s Spread) Spread {
	if s.Rounds == 0 {
		return s
	}
	return Spread{Median: 1 / s.Median, Min: 1 / s.Max, Max: 1 / s.Min, Rounds: s.Rounds}
}
