package main

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// Report is everything that a run came to.
type Report struct {
	// At is when it was made, Commit of which sources.
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Machine []Setting `json:"machine"`
	// Server are PostgreSQL's settings, the same for all contestants.
	Server      []Setting     `json:"server"`
	Plan        Plan          `json:"plan"`
	Contestants []Participant `json:"contestants"`
	Cells       []Cell        `json:"summary"`
	Targets     []Verdict     `json:"targets"`
	Samples     []Sample      `json:"samples"`
	// Repeated is how many turns were made again because others disturbed them, Disturbed
	// how many measurements count although they were.
	Repeated  int `json:"repeated_turns"`
	Disturbed int `json:"disturbed_measurements"`
}

// Participant describes a contestant.
type Participant struct {
	Key      string    `json:"key"`
	Name     string    `json:"name"`
	Group    Group     `json:"group"`
	Version  string    `json:"version"`
	Settings []Setting `json:"settings,omitempty"`
	// Absent says why it does not take part.
	Absent string `json:"absent,omitempty"`
}

// Cell is what a measurement of a contestant came to over the rounds. A figure that was
// not measured has no rounds.
type Cell struct {
	Contestant string `json:"contestant"`
	Measure    string `json:"measure"`
	// Rate is jobs a second, Ratio that of the reference (Duly) to it, round by round.
	Rate  Spread `json:"rate"`
	Ratio Spread `json:"reference_ratio"`
	// ClientCPU and ServerCPU are µs a job, or, idle, percent of a core. WAL is bytes a
	// job, Trips round trips a transaction.
	ClientCPU Spread `json:"client_cpu"`
	ServerCPU Spread `json:"server_cpu"`
	WAL       Spread `json:"wal_bytes"`
	Trips     Spread `json:"round_trips"`
	// P50, P99 and P999 are milliseconds.
	P50  Spread `json:"p50_ms"`
	P99  Spread `json:"p99_ms"`
	P999 Spread `json:"p99_9_ms"`
	// Unable says why it was not measured, Failures what went wrong, once a round.
	Unable   string   `json:"unable,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

// report summarises what a runner measured.
func (r *runner) report(ctx context.Context, server []Setting) Report {
	report := Report{
		At: time.Now().UTC().Truncate(time.Second), Commit: commit(ctx), Machine: machineOf(r.stack.postgres.Version()), Server: server,
		Plan: r.plan, Samples: r.samples, Repeated: r.repeated,
	}
	for _, s := range r.samples {
		if s.Others > calmBelow {
			report.Disturbed++
		}
	}
	for _, s := range r.seats {
		report.Contestants = append(report.Contestants, Participant{
			Key: s.key, Name: s.contestant.Name(), Group: s.group, Version: s.contestant.Version(), Settings: s.contestant.Settings(), Absent: s.absent,
		})
	}
	report.Cells = cellsOf(r.samples)
	report.Targets = judge(report.Cells)
	return report
}

// reference is the contestant that ratios refer to.
const reference = "duly"

// machineOf describes this machine, as far as it says.
func machineOf(postgres string) []Setting {
	return []Setting{
		{"CPUs", strconv.Itoa(runtime.NumCPU())},
		{"processor", cmp.Or(lineOf("/proc/cpuinfo", "model name"), "unknown")},
		{"memory", cmp.Or(lineOf("/proc/meminfo", "MemTotal"), "unknown")},
		{"system", runtime.GOOS + "/" + runtime.GOARCH},
		{"Go", runtime.Version()},
		{"GOGC of all contestants in Go", gogc()},
		{"PostgreSQL", postgres},
	}
}

// gogc is by how many percent the heap grows before garbage is collected.
func gogc() string {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return "unknown"
	}
	return strconv.FormatUint(sample[0].Value.Uint64(), 10)
}

// lineOf is what a file of /proc says about a name.
func lineOf(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// cellsOf makes a cell of all samples of a contestant's measurement, in the order in
// which they came first.
func cellsOf(samples []Sample) []Cell {
	rates := make(map[string]map[int]float64) // of the reference, by measure and round
	type place struct{ contestant, measure string }
	var order []place
	by := make(map[place][]Sample)
	for _, s := range samples {
		p := place{s.Contestant, s.Measure}
		if _, ok := by[p]; !ok {
			order = append(order, p)
		}
		by[p] = append(by[p], s)
		if s.Contestant == reference && s.measured() && s.Jobs > 0 {
			if rates[s.Measure] == nil {
				rates[s.Measure] = make(map[int]float64)
			}
			rates[s.Measure][s.Round] = s.Rate()
		}
	}
	cells := make([]Cell, 0, len(order))
	for _, p := range order {
		cells = append(cells, cellOf(p.contestant, p.measure, by[p], rates[p.measure]))
	}
	return cells
}

// cellOf summarises the samples of one place. rates are the reference's by round.
func cellOf(contestant, measure string, samples []Sample, rates map[int]float64) Cell {
	c := Cell{Contestant: contestant, Measure: measure}
	var rate, ratio, client, server, wal, trips, p50, p99, p999 []float64
	for _, s := range samples {
		switch {
		case s.Unable != "":
			c.Unable = s.Unable
			continue
		case s.Failed != "":
			c.Failures = append(c.Failures, s.Failed)
			continue
		case s.Jobs == 0: // idle
			client, server = append(client, 100*s.ClientCPU/s.Seconds), append(server, 100*s.ServerCPU/s.Seconds)
			continue
		}
		jobs := float64(s.Jobs)
		rate, wal = append(rate, s.Rate()), append(wal, float64(s.WAL)/jobs)
		client, server = append(client, 1e6*s.ClientCPU/jobs), append(server, 1e6*s.ServerCPU/jobs)
		if of, ok := rates[s.Round]; ok {
			ratio = append(ratio, of/s.Rate())
		}
		if s.Trips > 0 {
			trips = append(trips, s.Trips)
		}
		if l := s.Latency; l != nil {
			p50, p99, p999 = append(p50, l.P50), append(p99, l.P99), append(p999, l.P999)
		}
	}
	c.Rate, c.Ratio, c.WAL, c.Trips = spread(rate), spread(ratio), spread(wal), spread(trips)
	c.ClientCPU, c.ServerCPU = spread(client), spread(server)
	c.P50, c.P99, c.P999 = spread(p50), spread(p99), spread(p999)
	return c
}

// cells finds cells by contestant and measure.
type cells []Cell

// find returns the cell; false where nothing was measured.
func (all cells) find(contestant, measure string) (Cell, bool) {
	for _, c := range all {
		if c.Contestant == contestant && c.Measure == measure {
			return c, c.ClientCPU.Rounds > 0
		}
	}
	return Cell{}, false
}

// failed lists what went wrong, as contestant, measure and reason.
func (all cells) failed() []string {
	var lines []string
	for _, c := range all {
		for _, f := range c.Failures {
			lines = append(lines, c.Contestant+", "+c.Measure+": "+f)
		}
	}
	return lines
}
