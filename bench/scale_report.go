package main

import (
	"fmt"
	"slices"
	"strings"
)

// perJob is what a job costs, as it was measured.
type perJob struct {
	// Go and Postgres are microseconds of CPU, Go with the broker.
	Go, Postgres float64
	// WAL, Kept, Keys, Bus and Wire are bytes: written ahead; on disk until the retention is
	// over; on disk for as long as keys are kept; to and from the bus; to and from
	// PostgreSQL.
	WAL, Kept, Keys, Bus, Wire float64
}

// demand is what a rate of jobs asks of machines.
type demand struct {
	Rate float64
	// Cores are those of Duly with the broker, and of PostgreSQL.
	GoCores, PostgresCores float64
	// WAL is megabytes a second, Bus and Wire megabits a second.
	WAL, Bus, Wire float64
	// Day and Retention are gigabytes that one day, and all days of the retention, leave on
	// disk; Keys those that a year of keys takes.
	Day, Retention, Keys float64
}

const secondsOfDay = 86_400

// at is what so many jobs a second ask for, all day, kept for so many days.
func (p perJob) at(rate, days float64) demand {
	return demand{
		Rate:    rate,
		GoCores: rate * p.Go / 1e6, PostgresCores: rate * p.Postgres / 1e6,
		WAL: rate * p.WAL / 1e6, Bus: rate * p.Bus * 8 / 1e6, Wire: rate * p.Wire * 8 / 1e6,
		Day: rate * secondsOfDay * p.Kept / 1e9, Retention: rate * secondsOfDay * days * p.Kept / 1e9,
		Keys: rate * secondsOfDay * 365 * p.Keys / 1e9,
	}
}

// perJob takes the costs from what was measured on one ledger.
func (f scaleFigures) perJob() perJob {
	return perJob{
		Go: medianOf(f.One, clientMicros), Postgres: medianOf(f.One, serverMicros), WAL: medianOf(f.One, walBytes),
		Kept: f.Disk.Kept, Keys: f.Disk.Keys, Bus: f.Wire.Bus, Wire: f.Wire.Postgres,
	}
}

// retention is the default, in days.
const retention = 30

// markdown is the part of docs/scale.md.
func (f scaleFigures) markdown() string {
	var b strings.Builder
	b.WriteString("## What was measured\n\n" + f.Facts.String())
	f.ledgers(&b)
	f.fleets(&b)
	f.demands(&b)
	return b.String()
}

func (f scaleFigures) ledgers(b *strings.Builder) {
	fmt.Fprintf(b, "\n### One ledger and two\n\n%s jobs inserted and worked at once, medians of %d interleaved rounds. Each ledger has a PostgreSQL server, a broker, a scheduler, a dispatcher and a worker of its own; "+
		"all of them share the same cores, so what can be seen here is not that two are twice as fast, but that a job costs the same and that neither waits for the other.\n\n", grouped(int64(f.Plan.Jobs)), f.Plan.Rounds)
	t := newTable(true, "", "jobs/s together", "CPU µs/job, Duly and NATS", "CPU µs/job, PostgreSQL", "WAL B/job")
	for _, row := range []struct {
		title   string
		samples []Sample
	}{{"one ledger", f.One}, {"two ledgers, two servers", f.Two}} {
		t.row(row.title, number(medianOf(row.samples, Sample.Rate)), number(medianOf(row.samples, clientMicros)), number(medianOf(row.samples, serverMicros)), number(medianOf(row.samples, walBytes)))
	}
	t.row("two of one", number(ratio(f.Two, f.One, Sample.Rate)), number(ratio(f.Two, f.One, clientMicros)), number(ratio(f.Two, f.One, serverMicros)), number(ratio(f.Two, f.One, walBytes)))
	b.WriteString(t.String())
}

// fleetMedian is the median of a figure over the rounds.
func fleetMedian(all []fleetFigures, figure func(fleetFigures) float64) float64 {
	figures := make([]float64, len(all))
	for i, f := range all {
		figures[i] = figure(f)
	}
	return spread(figures).Median
}

func (f scaleFigures) fleets(b *strings.Builder) {
	if len(f.Small) == 0 || len(f.Large) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### A fleet on one ledger\n\nA scheduler, a dispatcher and workers, each with its own connections, row and heartbeat, as processes have them, though in one process here; %d references a message; "+
		"medians of %d interleaved rounds. At full rate %s jobs are inserted and worked at once; latency is at 500 jobs a second.\n\n", f.Plan.Slots, f.Plan.Rounds, grouped(int64(f.Large[0].Both.Jobs)))
	t := newTable(true, "", f.Small[0].String(), f.Large[0].String())
	for _, row := range []struct {
		title  string
		figure func(fleetFigures) float64
	}{
		{"connections to PostgreSQL", func(f fleetFigures) float64 { return float64(f.Connections) }},
		{"seconds until all are registered", func(f fleetFigures) float64 { return f.Registered }},
		{"idle: % of a core, Duly and NATS", func(f fleetFigures) float64 { return 100 * f.Idle.ClientCPU / f.Idle.Seconds }},
		{"idle: % of a core, PostgreSQL", func(f fleetFigures) float64 { return 100 * f.Idle.ServerCPU / f.Idle.Seconds }},
		{"idle: bytes of WAL a second", func(f fleetFigures) float64 { return float64(f.Idle.WAL) / f.Idle.Seconds }},
		{"idle: heartbeats a second", func(f fleetFigures) float64 { return f.calls("worker_heartbeat") }},
		{"idle: ms of PostgreSQL a second for heartbeats", func(f fleetFigures) float64 { return f.millis("worker_heartbeat") }},
		{"idle: ms of PostgreSQL a second for looking at all workers", func(f fleetFigures) float64 { return f.millis("workers_beat", "workers_undrained") }},
		{"full rate: jobs/s", func(f fleetFigures) float64 { return f.Both.Rate() }},
		{"full rate: CPU µs/job, Duly and NATS", func(f fleetFigures) float64 { return clientMicros(f.Both) }},
		{"full rate: CPU µs/job, PostgreSQL", func(f fleetFigures) float64 { return serverMicros(f.Both) }},
		{"full rate: WAL B/job", func(f fleetFigures) float64 { return walBytes(f.Both) }},
		{"500/s: p50 ms", func(f fleetFigures) float64 { return p50(f.Latency) }},
		{"500/s: p99 ms", func(f fleetFigures) float64 { return p99(f.Latency) }},
	} {
		t.row(row.title, number(fleetMedian(f.Small, row.figure)), number(fleetMedian(f.Large, row.figure)))
	}
	b.WriteString(t.String())
}

// calls is how often a second the idle fleet asks a statement.
func (f fleetFigures) calls(name string) float64 {
	for _, s := range f.Statements {
		if s.Name == name {
			return float64(s.Calls) / f.Idle.Seconds
		}
	}
	return 0
}

// millis is the time a second that statements of the idle fleet take.
func (f fleetFigures) millis(names ...string) (sum float64) {
	for _, s := range f.Statements {
		if slices.Contains(names, s.Name) {
			sum += s.Millis / f.Idle.Seconds
		}
	}
	return sum
}

func (f scaleFigures) demands(b *strings.Builder) {
	p := f.perJob()
	fmt.Fprintf(b, "\n### What a job costs\n\n%.1f µs of CPU in Duly and NATS, %.1f µs in PostgreSQL, %.0f bytes of WAL; %.0f bytes on disk until its retention is over and %.0f for its key; "+
		"%.0f bytes to and from the bus with %d references a message, %.0f to and from PostgreSQL (100 bytes of payload; what producers send is not among it).\n",
		p.Go, p.Postgres, p.WAL, p.Kept, p.Keys, p.Bus, f.Wire.Pack, p.Wire)
	fmt.Fprintf(b, "\n### What a rate asks for\n\nThe rate times these figures, all day, with a retention of %d days. A payload adds its bytes to WAL, disk and wire, each once or more.\n\n", retention)
	t := newTable(true, "jobs/s", "cores, Duly and NATS", "cores, PostgreSQL", "WAL MB/s", "bus Mbit/s", "PostgreSQL Mbit/s", "disk GB a day", fmt.Sprintf("disk GB, %d days", retention), "keys GB a year")
	for _, rate := range []float64{100, 1_000, 10_000, 50_000, 200_000} {
		d := p.at(rate, retention)
		t.row(number(d.Rate), number(d.GoCores), number(d.PostgresCores), number(d.WAL), number(d.Bus), number(d.Wire), number(d.Day), number(d.Retention), number(d.Keys))
	}
	b.WriteString(t.String())
}
