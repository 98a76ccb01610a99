package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// Plan says what is measured.
type Plan struct {
	Rounds int `json:"rounds"`
	// Jobs is how many jobs the bulk measurements have.
	Jobs int `json:"jobs"`
	// Singles, Latency and Idle are for how long these are measured.
	Singles time.Duration `json:"singles_ns"`
	Latency time.Duration `json:"latency_ns"`
	Idle    time.Duration `json:"idle_ns"`
	// Only and Measures are patterns (path.Match) of contestants and of measurements;
	// none means all.
	Only     []string `json:"only,omitempty"`
	Measures []string `json:"measures,omitempty"`
	Load     Load     `json:"load"`
	// Hasty waits for no calm and repeats nothing: its figures are worth nothing.
	Hasty bool `json:"hasty,omitempty"`
}

// limit is the longest that one measurement may take, its preparation included.
const limit = 5 * time.Minute

// measure is one measurement.
type measure struct {
	name string
	// title heads its row, unit says what is counted.
	title, unit string
	jobs        int
	run         func(ctx context.Context, c Contestant, m *Meter) error
}

// turns are the measurements in order; those of one turn share a database.
func (p Plan) turns() [][]measure {
	singles := func(clients int) measure {
		return measure{
			name: fmt.Sprintf("singles-%d", clients), title: fmt.Sprintf("one a transaction, %d clients", clients), unit: "transactions/s",
			run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Singles(ctx, m, clients, p.Singles) },
		}
	}
	latency := func(rate int) measure {
		return measure{
			name: fmt.Sprintf("latency-%d", rate), title: fmt.Sprintf("latency at %d/s", rate), unit: "jobs/s",
			run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Latency(ctx, m, rate, p.Latency) },
		}
	}
	all := [][]measure{
		{
			{name: "insert", title: "bulk insert, nothing works", unit: "jobs/s", jobs: p.Jobs, run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Insert(ctx, m, p.Jobs) }},
			{name: "drain", title: "work what was inserted", unit: "jobs/s", jobs: p.Jobs, run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Drain(ctx, m, p.Jobs) }},
		},
		{{name: "both", title: "insert and work at once", unit: "jobs/s", jobs: p.Jobs, run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Both(ctx, m, p.Jobs) }}},
		{singles(8)},
		{singles(32)},
		{latency(500)},
		{latency(2000)},
		{{name: "idle", title: "idle", unit: "", run: func(ctx context.Context, c Contestant, m *Meter) error { return c.Idle(ctx, m, p.Idle) }}},
	}
	var wanted [][]measure
	for _, turn := range all {
		for _, m := range turn { // a drain needs its insert: the turn counts as a whole
			if matches(p.Measures, m.name) {
				wanted = append(wanted, turn)
				break
			}
		}
	}
	return wanted
}

// matches reports whether one of the patterns fits; none fit everything.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return len(patterns) == 0
}

// seat is a contestant that takes part.
type seat struct {
	entry
	contestant Contestant
	absent     string
}

// runner runs the rounds.
type runner struct {
	plan    Plan
	stack   *Stack
	seats   []*seat
	samples []Sample
	// repeated counts turns that were made again because others disturbed them.
	repeated int
	out      io.Writer
}

// invite makes and prepares the contestants. It is an error if nobody fits the plan.
func (r *runner) invite(ctx context.Context, all []entry) error {
	for _, e := range all {
		if !matches(r.plan.Only, e.key) {
			continue
		}
		s := &seat{entry: e, contestant: e.make(r.plan.Load)}
		if err := s.contestant.Prepare(ctx, r.stack); err != nil {
			s.absent = err.Error()
			fmt.Fprintf(r.out, "%-16s absent: %s\n", e.key, s.absent)
		}
		r.seats = append(r.seats, s)
	}
	if len(r.seats) == 0 {
		return fmt.Errorf("--only %s: there is no such contestant", strings.Join(r.plan.Only, ","))
	}
	return nil
}

// run runs every measurement of every round: A B C, A B C.
func (r *runner) run(ctx context.Context) error {
	for round := 1; round <= r.plan.Rounds; round++ {
		for _, turn := range r.plan.turns() {
			for _, s := range r.seats {
				if s.absent != "" {
					continue
				}
				if err := r.turn(ctx, s, turn, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// turn lets a contestant do the measurements of one turn; where others disturbed it, it
// does them again. Only the end of ctx is an error; what goes wrong with the contestant is
// in its samples.
func (r *runner) turn(ctx context.Context, s *seat, turn []measure, round int) error {
	for try := 1; ; try++ {
		samples, err := r.try(ctx, s, turn, round)
		if err != nil {
			return err
		}
		disturbed := slices.ContainsFunc(samples, func(s Sample) bool { return s.Others > calmBelow })
		if !disturbed || try == maxTries || r.plan.Hasty {
			r.samples = append(r.samples, samples...)
			return nil
		}
		r.repeated++
	}
}

// maxTries is how often a turn is tried before a disturbed one counts.
const maxTries = 3

// try does the measurements of a turn once.
func (r *runner) try(ctx context.Context, s *seat, turn []measure, round int) (samples []Sample, err error) {
	opened := s.contestant.Open(ctx, r.stack)
	defer func() {
		if e := s.contestant.Close(context.WithoutCancel(ctx)); e != nil {
			err = errors.Join(err, fmt.Errorf("closing %s: %w", s.key, e))
		}
	}()
	for _, m := range turn {
		sample, err := Sample{}, opened
		if err == nil {
			sample, err = r.measure(ctx, s.contestant, m)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if why, ok := unableReason(err); ok {
			sample = Sample{Unable: why}
		} else if err != nil {
			sample = Sample{Failed: err.Error()}
		}
		sample.Contestant, sample.Measure, sample.Round = s.key, m.name, round
		samples = append(samples, sample)
		r.print(m, sample)
	}
	return samples, nil
}

// measure makes one measurement from an equal start.
func (r *runner) measure(ctx context.Context, c Contestant, m measure) (Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	if err := r.stack.settle(ctx); err != nil {
		return Sample{}, err
	}
	if !r.plan.Hasty {
		if err := calm(ctx); err != nil {
			return Sample{}, err
		}
	}
	meter := newMeter(r.stack, m.jobs)
	if err := m.run(ctx, c, meter); err != nil {
		return Sample{}, err
	}
	return meter.result()
}

// print shows a sample while the rounds go on.
func (r *runner) print(m measure, s Sample) {
	line := fmt.Sprintf("%d/%d %-14s %-16s ", s.Round, r.plan.Rounds, s.Measure, s.Contestant)
	switch {
	case s.Unable != "":
		return
	case s.Failed != "":
		line += "FAILED: " + s.Failed
	case s.Jobs == 0:
		line += fmt.Sprintf("%.2f%% + %.2f%% of a core", 100*s.ClientCPU/s.Seconds, 100*s.ServerCPU/s.Seconds)
	default:
		line += fmt.Sprintf("%9.0f %s  %6.1f + %5.1f µs CPU  %5.0f B of WAL", s.Rate(), m.unit, 1e6*s.ClientCPU/float64(s.Jobs), 1e6*s.ServerCPU/float64(s.Jobs), float64(s.WAL)/float64(s.Jobs))
	}
	if l := s.Latency; l != nil {
		line += fmt.Sprintf("  p50 %.1f p99 %.1f p99.9 %.1f ms", l.P50, l.P99, l.P999)
	}
	if s.Others > calmBelow {
		line += fmt.Sprintf("  disturbed: others used %.0f %% of the machine", 100*s.Others)
	}
	fmt.Fprintln(r.out, line)
}
