package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Sample is one measurement of one contestant in one round.
type Sample struct {
	Contestant string `json:"contestant"`
	Measure    string `json:"measure"`
	Round      int    `json:"round"`
	// Jobs is how many jobs, transactions, rows or messages were measured.
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
	// ClientCPU and ServerCPU are in seconds: of the contestant's own processes (its
	// embedded broker included), and of PostgreSQL's, or of another server that keeps
	// its jobs.
	ClientCPU float64 `json:"client_cpu_seconds"`
	ServerCPU float64 `json:"server_cpu_seconds"`
	// WAL is how many bytes PostgreSQL wrote ahead.
	WAL int64 `json:"wal_bytes"`
	// Trips are round trips to the server a transaction, where they were counted.
	Trips float64 `json:"round_trips,omitempty"`
	// Others is the share of the machine that everything else used meanwhile.
	Others float64 `json:"others_share"`
	// Latency is set by measurements of latency.
	Latency *Latency `json:"latency,omitempty"`
	// Unable says why the contestant cannot do this; Failed what went wrong. Where one
	// of them is set, nothing else is.
	Unable string `json:"unable,omitempty"`
	Failed string `json:"failed,omitempty"`
}

// Rate is jobs a second.
func (s Sample) Rate() float64 { return float64(s.Jobs) / s.Seconds }

// measured reports whether the sample has figures.
func (s Sample) measured() bool { return s.Unable == "" && s.Failed == "" }

// Meter measures what lies between Begin and Done: time, CPU time and the write-ahead
// log.
type Meter struct {
	// Histogram takes latencies.
	Histogram Histogram

	stack                   *Stack
	clients, servers, aside []int
	jobs                    int
	trips                   float64
	from                    usage
	began                   time.Time
	sample                  Sample
	done                    bool
}

// newMeter makes a meter for so many jobs.
func newMeter(s *Stack, jobs int) *Meter { return &Meter{stack: s, jobs: jobs} }

// Client names processes beside this one that are part of the contestant. Call it
// before Begin; a process that ends is no longer counted.
func (m *Meter) Client(pids ...int) { m.clients = append(m.clients, pids...) }

// Server names processes, beside PostgreSQL's, that keep the contestant's jobs.
func (m *Meter) Server(pids ...int) { m.servers = append(m.servers, pids...) }

// Aside names processes that are part of the measurement and of nobody's costs.
func (m *Meter) Aside(pids ...int) { m.aside = append(m.aside, pids...) }

// Count says how many jobs the measurement had, where that is not known before.
func (m *Meter) Count(jobs int) { m.jobs = jobs }

// Trips says how many round trips a transaction took.
func (m *Meter) Trips(perTransaction float64) { m.trips = perTransaction }

// Begin starts the measurement.
func (m *Meter) Begin(ctx context.Context) error {
	var err error
	if m.from, err = m.usage(ctx); err != nil {
		return fmt.Errorf("beginning to measure: %w", err)
	}
	m.began = time.Now()
	return nil
}

// Done ends it.
func (m *Meter) Done(ctx context.Context) error {
	took := time.Since(m.began)
	to, err := m.usage(ctx)
	if err != nil {
		return fmt.Errorf("measuring: %w", err)
	}
	m.sample = Sample{
		Seconds:   took.Seconds(),
		ClientCPU: (to.client - m.from.client).Seconds(), ServerCPU: (to.server - m.from.server).Seconds(),
		WAL: to.wal - m.from.wal,
	}
	ours := (to.client - m.from.client) + (to.server - m.from.server) + (to.aside - m.from.aside)
	m.sample.Others = share(to.machine-m.from.machine-ours, took)
	m.done = true
	return nil
}

// share is what a CPU time is of all that the machine has in so long.
func share(cpu, took time.Duration) float64 {
	return max(0, cpu.Seconds()/(took.Seconds()*float64(runtime.NumCPU())))
}

// errNotMeasured: a contestant returned without having called Begin and Done.
var errNotMeasured = errors.New("it returned without having measured")

// result is what was measured.
func (m *Meter) result() (Sample, error) {
	if !m.done || m.began.IsZero() {
		return Sample{}, errNotMeasured
	}
	s := m.sample
	s.Jobs, s.Trips = m.jobs, m.trips
	if m.Histogram.Len() > 0 {
		l := m.Histogram.Latency()
		s.Latency = &l
	}
	return s, nil
}

// usage is what was used up to some moment.
type usage struct {
	client, server, aside, machine time.Duration
	wal                            int64
}

func (m *Meter) usage(ctx context.Context) (u usage, err error) {
	if u.wal, err = m.stack.wal(ctx); err != nil {
		return u, err
	}
	if u.server, err = cpuOfTrees(append([]int{m.stack.postmaster}, m.servers...)); err != nil {
		return u, err
	}
	if u.client, err = cpuOfTrees(m.clients); err != nil {
		return u, err
	}
	if u.aside, err = cpuOfTrees(m.aside); err != nil {
		return u, err
	}
	self, err := cpuOfSelf()
	if err != nil {
		return u, err
	}
	u.client += self
	u.machine, err = cpuOfMachine()
	return u, err
}
