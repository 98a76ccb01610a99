package main

import (
	"fmt"
	"slices"
	"strings"
)

// flatFigures is what the command found.
type flatFigures struct {
	Facts facts       `json:"facts"`
	Plan  flatCommand `json:"plan"`
	// Conditions are those of Samples, in order; the first is the empty ledger.
	Conditions []named  `json:"conditions,omitempty"`
	Samples    []Sample `json:"samples,omitempty"`
	History    grown    `json:"history"`
	// Keys are laps with random keys.
	Keys []Sample `json:"keys,omitempty"`
	// Held are laps and latency, first without, then with a transaction that stays open.
	Held       []heldFigures        `json:"held,omitempty"`
	Statements []statementsOfGround `json:"statements,omitempty"`
}

// named is a condition by its key and its title.
type named struct {
	Key   string `json:"key"`
	Title string `json:"title"`
}

// heldFigures are laps and then latency.
type heldFigures struct {
	Laps    []Sample `json:"laps"`
	Latency Sample   `json:"latency"`
	// Held is for how many seconds a transaction was open; 0 for none. What it had written
	// was delivered Afterwards, in milliseconds from its commit.
	Held       float64 `json:"held_seconds,omitempty"`
	Afterwards float64 `json:"afterwards_ms,omitempty"`
}

// statementsOfGround are the statements of Jobs jobs in a ground.
type statementsOfGround struct {
	Ground     string      `json:"ground"`
	Lap        Sample      `json:"lap"`
	Statements []statement `json:"statements"`
	Scans      []scan      `json:"sequential_scans"`
}

// Targets.
const (
	flatTarget   = 0.85 // of the empty ledger's rate
	keysTarget   = 0.75 // of the first quarter's
	heldTarget   = 0.70 // of the rate without
	statementMax = 5.0  // milliseconds for a batch of 500
)

// markdown is the part of docs/performance.md.
func (f flatFigures) markdown() string {
	var b strings.Builder
	b.WriteString("### Flat at any size\n\n" + f.Facts.String())
	f.conditions(&b)
	f.keys(&b)
	f.held(&b)
	f.statements(&b)
	return b.String()
}

// of are the samples of a measurement under a condition, in order of the rounds.
func (f flatFigures) of(condition, measure string) []Sample {
	return slices.DeleteFunc(slices.Clone(f.Samples), func(s Sample) bool { return s.Contestant != condition || s.Measure != measure })
}

// medianOf is the median of a figure over samples.
func medianOf(samples []Sample, figure func(Sample) float64) float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		all[i] = figure(s)
	}
	return spread(all).Median
}

// ratio is the median of how a figure of each round compares with that of the empty ledger
// in the same round.
func ratio(samples, empty []Sample, figure func(Sample) float64) float64 {
	var all []float64
	for i := range min(len(samples), len(empty)) {
		all = append(all, figure(samples[i])/figure(empty[i]))
	}
	return spread(all).Median
}

// Figures of a sample.
func clientMicros(s Sample) float64 { return 1e6 * s.ClientCPU / float64(s.Jobs) }
func serverMicros(s Sample) float64 { return 1e6 * s.ServerCPU / float64(s.Jobs) }
func walBytes(s Sample) float64     { return float64(s.WAL) / float64(s.Jobs) }
func p50(s Sample) float64          { return s.Latency.P50 }
func p99(s Sample) float64          { return s.Latency.P99 }

// conditions are a table for each measurement.
func (f flatFigures) conditions(b *strings.Builder) {
	if len(f.Conditions) == 0 {
		return
	}
	fmt.Fprintf(b, "\nMedians of %d interleaved rounds; a ratio is the median of the ratios to the empty ledger in the same round. Every job has a payload of 100 bytes and a destination; "+
		"a bulk measurement has %s of them and begins with a CHECKPOINT.\n", f.Plan.Rounds, count(f.Plan.Jobs))
	if h := f.History; h.Jobs > 0 {
		fmt.Fprintf(b, "\nHistory: %s jobs were enqueued and worked; what they left in the ledger was copied, with other numbers, keys and instants, until there were %s, "+
			"in daily partitions of %d days (%.1f GB with indexes, made in %.0f s, then vacuumed). `duly check` folded %s of the copies, taken at random: %d disagreements.\n",
			count(h.Sample), count(h.Jobs), h.Days, float64(h.Bytes)/1e9, h.Seconds, count(h.Checked), h.Disagreements)
	}
	for _, m := range []struct{ name, title string }{
		{"insert", "Bulk insert, nothing works"}, {"drain", "Work what was inserted"}, {"both", "Insert and work at once"},
	} {
		fmt.Fprintf(b, "\n%s:\n\n| ledger | jobs/s | of empty | CPU µs/job, Duly and NATS | PostgreSQL | WAL B/job | |\n|---|---|---|---|---|---|---|\n", m.title)
		empty := f.of(emptyKey, m.name)
		for _, c := range f.Conditions {
			s := f.of(c.Key, m.name)
			r := ratio(s, empty, Sample.Rate)
			fmt.Fprintf(b, "| %s | %s | %.2f | %.1f | %.1f | %.0f | %s |\n", c.Title, grouped(int64(medianOf(s, Sample.Rate))), r,
				medianOf(s, clientMicros), medianOf(s, serverMicros), medianOf(s, walBytes), verdict(r >= flatTarget))
		}
	}
	b.WriteString("\nLatency at 500 jobs a second, from before the enqueue until durably done, with defaults:\n\n| ledger | p50 ms | p99 ms | CPU µs/job, Duly and NATS | PostgreSQL | WAL B/job |\n|---|---|---|---|---|---|\n")
	for _, c := range f.Conditions {
		s := f.of(c.Key, "latency-500")
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %.0f | %.0f | %.0f |\n", c.Title, medianOf(s, p50), medianOf(s, p99), medianOf(s, clientMicros), medianOf(s, serverMicros), medianOf(s, walBytes))
	}
}

// verdict is what a table says about a target.
func verdict(met bool) string {
	if met {
		return "met"
	}
	return "**missed**"
}

// quarter is the rate of a quarter of laps.
func quarter(laps []Sample, n int) float64 {
	var jobs int
	var seconds float64
	for _, s := range laps[n*len(laps)/4 : (n+1)*len(laps)/4] {
		jobs, seconds = jobs+s.Jobs, seconds+s.Seconds
	}
	return float64(jobs) / seconds
}

// quarters says how fast each quarter of laps was.
func quarters(laps []Sample) string {
	var all []string
	for n := range 4 {
		all = append(all, grouped(int64(quarter(laps, n))))
	}
	return strings.Join(all, ", ") + " jobs/s by quarter"
}

// keys is a table of quarters.
func (f flatFigures) keys(b *strings.Builder) {
	if len(f.Keys) == 0 {
		return
	}
	fmt.Fprintf(b, "\nRandom keys over %s jobs, inserted and worked at once, %s at a time:\n\n| quarter | jobs/s | of the first | CPU µs/job, Duly and NATS | PostgreSQL | WAL B/job |\n|---|---|---|---|---|---|\n",
		count(len(f.Keys)*f.Keys[0].Jobs), count(f.Keys[0].Jobs))
	for n := range 4 {
		laps := f.Keys[n*len(f.Keys)/4 : (n+1)*len(f.Keys)/4]
		fmt.Fprintf(b, "| %d | %s | %.2f | %.1f | %.1f | %.0f |\n", n+1, grouped(int64(quarter(f.Keys, n))), quarter(f.Keys, n)/quarter(f.Keys, 0),
			medianOf(laps, clientMicros), medianOf(laps, serverMicros), medianOf(laps, walBytes))
	}
	fmt.Fprintf(b, "\nTarget: the last at least %.2f of the first: %s.\n", keysTarget, verdict(quarter(f.Keys, 3) >= keysTarget*quarter(f.Keys, 0)))
}

// held is a table of what a transaction that stays open does.
func (f flatFigures) held(b *strings.Builder) {
	if len(f.Held) != 2 {
		return
	}
	with := f.Held[1]
	fmt.Fprintf(b, "\nA producer's transaction that has enqueued a job and stays open, for %.0f s here, keeps PostgreSQL from removing what updates left behind. "+
		"Laps of %s jobs, inserted and worked at once, then latency at 500/s:\n\n| | jobs/s, first quarter | last quarter | median lap | PostgreSQL CPU µs/job, median lap | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|\n",
		with.Held, count(with.Laps[0].Jobs))
	for i, title := range []string{"none open", "one open all the time"} {
		h := f.Held[i]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.1f | %.1f | %.1f |\n", title, grouped(int64(quarter(h.Laps, 0))), grouped(int64(quarter(h.Laps, 3))),
			grouped(int64(medianOf(h.Laps, Sample.Rate))), medianOf(h.Laps, serverMicros), h.Latency.Latency.P50, h.Latency.Latency.P99)
	}
	r := quarter(with.Laps, 3) / quarter(f.Held[0].Laps, 3)
	fmt.Fprintf(b, "\nLast quarter with it against without: %.2f; target %.2f: %s. The job that it had enqueued was delivered %.0f ms after its commit.\n", r, heldTarget, verdict(r >= heldTarget), with.Afterwards)
}

// perCall are statements that see each job once: how many a call has is known.
var perCall = []string{"enqueue", "lease_refs", "settle_done"}

// statements are a table of the hot statements at size, and of scans.
func (f flatFigures) statements(b *strings.Builder) {
	if len(f.Statements) == 0 {
		return
	}
	large := f.Statements[len(f.Statements)-1]
	small := make(map[string]statement)
	for _, s := range f.Statements[0].Statements {
		small[s.Name] = s
	}
	fmt.Fprintf(b, "\nStatements of %s jobs, which come in batches of %d, %d a second, from `pg_stat_statements`: on the ledger with history, and their means on the empty one. "+
		"The server keeps no medians: the one shown is of the means of each second.\n\n"+
		"| statement | calls | a call | mean ms | median ms | mean ms, empty | ms for 500 | WAL B/job |\n|---|---|---|---|---|---|---|---|\n", count(large.Lap.Jobs), flatTuning.batch, pace)
	for _, s := range large.Statements {
		if s.Millis < 1 {
			continue
		}
		each, per500 := s.each(large.Lap.Jobs)
		shown := "–"
		if per500 > 0 {
			shown = fmt.Sprintf("%.2f, %s", per500, verdict(per500 <= statementMax))
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %.3f | %.3f | %.3f | %s | %.0f |\n", s.Name, grouped(s.Calls), each, s.Mean(), s.Median, small[s.Name].Mean(), shown, float64(s.WAL)/float64(large.Lap.Jobs))
	}
	var whole []string
	for _, s := range large.Scans {
		if s.Pages >= bigTable {
			whole = append(whole, fmt.Sprintf("`%s` (%s pages, %d times, %s rows)", s.Table, grouped(s.Pages), s.Scans, grouped(s.Rows)))
		}
	}
	if len(whole) == 0 {
		fmt.Fprintf(b, "\nMeanwhile, and for %s after it, all loops ran: no table of %s pages or more was read sequentially.\n", loopsRun, grouped(bigTable))
		return
	}
	fmt.Fprintf(b, "\n**Read sequentially**, though large: %s.\n", strings.Join(whole, ", "))
}

// each says how many jobs or rows a call had, and how long one of 500 jobs takes, which is
// 0 for what does not see every job once.
func (s statement) each(jobs int) (text string, per500 float64) {
	calls := float64(max(1, s.Calls))
	if !slices.Contains(perCall, s.Name) {
		return fmt.Sprintf("%.1f rows", float64(s.Rows)/calls), 0
	}
	n := float64(jobs) / calls
	return fmt.Sprintf("%.0f jobs", n), s.Median / n * 500
}
