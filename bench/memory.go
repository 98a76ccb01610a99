package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/pkg/job"
)

// memoryCommand is what `go run . memory` takes.
type memoryCommand struct {
	Outbox    int    `help:"How many rows the outbox holds when a dispatcher starts, one job each." default:"1000000"`
	HTTP      int    `help:"How many jobs are HTTP effects." default:"200000" name:"http"`
	Scheduled int    `help:"How many jobs are due when a scheduler starts." default:"1000000"`
	History   int    `help:"How many finished jobs stand in the second ledger." default:"3000000"`
	Out       string `help:"Folder for memory.json and the part of performance.md; by default that is printed." placeholder:"DIR"`
	Quick     bool   `help:"Small sizes, to see whether everything works; its figures mean nothing."`
}

// memoryFigures is what the command found.
type memoryFigures struct {
	Facts facts         `json:"facts"`
	Plan  memoryCommand `json:"plan"`
	// Grounds are the ledgers, in the order in which Footprints have them.
	Grounds    []named      `json:"ledgers"`
	Footprints []measuredAt `json:"footprints"`
}

// measuredAt is a program at some work, on some ledger.
type measuredAt struct {
	Program string `json:"program"`
	Work    string `json:"work"`
	Ground  string `json:"ledger"`
	footprint
	Jobs    int     `json:"jobs"`
	Seconds float64 `json:"seconds"`
}

// memoryRun is a run of the command.
type memoryRun struct {
	command memoryCommand
	stack   *Stack
	bin     string
	out     io.Writer
	figures memoryFigures
}

// quick makes every size small.
func (c *memoryCommand) quick() {
	c.Outbox, c.HTTP, c.Scheduled, c.History = 2000, 2000, 2000, 20_000
}

// Run measures and reports.
func (c memoryCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Quick {
		c.quick()
	}
	m := &memoryRun{command: c, out: p.Stderr}
	err := measured(ctx, p, nil, &m.figures.Facts, func(s *Stack) error {
		m.stack, m.bin = s, filepath.Join(s.Dir, "bin")
		if err := buildPrograms(ctx, m.bin, "scheduler", "dispatcher", "worker"); err != nil {
			return err
		}
		return errors.Join(m.on(ctx, "empty", "empty", 0), m.on(ctx, "history", count(c.History)+" finished jobs", c.History))
	})
	if err != nil {
		return err
	}
	m.figures.Plan = c
	return report(p, c.Out, part{"performance.md", "memory", m.figures.markdown()}, m.figures)
}

// on measures every program on a ledger with so many finished jobs.
func (m *memoryRun) on(ctx context.Context, key, title string, history int) (err error) {
	g, err := newGround(ctx, m.stack, "memory_"+key, dulyBest)
	if err != nil {
		return err
	}
	if err := g.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close(ctx), m.stack.Drop(ctx, g.database)) }()
	if history > 0 {
		if _, err := g.grow(ctx, history, 20, historySample); err != nil {
			return err
		}
	}
	m.figures.Grounds = append(m.figures.Grounds, named{key, title})
	for _, work := range []func(context.Context, *ground) ([]measuredAt, error){m.relays, m.calls, m.promotes} {
		all, err := work(ctx, g)
		if err != nil {
			return err
		}
		for _, one := range all {
			one.Ground = key
			m.figures.Footprints = append(m.figures.Footprints, one)
			_, _ = fmt.Fprintf(m.out, "%-8s %-40s %4.0f MB, %d goroutines, %.0f jobs/s\n", key, one.Program+": "+one.Work,
				float64(one.Peak)/1e6, one.Goroutines, float64(one.Jobs)/one.Seconds)
		}
	}
	return nil
}

// configOf is a configuration for throughput in which the load's kind has a channel.
func configOf(t dulyTuning, channel string) string {
	return fmt.Sprintf("lanes: {bench: {pack: %d}, standing: {pack: %d}}\nkinds: {%s: {lane: bench, %s}, %s: {lane: standing, channel: go}}\nworker: {slots: %d}\n",
		t.pack, t.pack, dulyKind, channel, standingKind, t.slots)
}

// relays measures a dispatcher that finds a deep outbox, and then a worker that finds all
// that on the bus: it works at the rate that it has.
func (m *memoryRun) relays(ctx context.Context, g *ground) ([]measuredAt, error) {
	n := m.command.Outbox
	if err := g.insertOneByOne(ctx, n); err != nil {
		return nil, err
	}
	config := configOf(dulyBest, "channel: go")
	dispatcher, err := m.measure(ctx, g, "dispatcher", fmt.Sprintf("an outbox of %s rows", count(n)), n, config, nil, func(ctx context.Context) (bool, error) {
		depth, err := ledger.New(g.pool.Pool).OutboxDepth(ctx, "bench", 1)
		return depth == 0, err
	})
	if err != nil {
		return nil, err
	}
	worker, err := m.measure(ctx, g, "worker", fmt.Sprintf("a handler that does nothing, %d slots", dulyBest.slots), n, config, []string{"work"}, g.delivered)
	return []measuredAt{dispatcher, worker}, err
}

// calls measures a worker whose effects are HTTP requests to a receiver on this machine.
func (m *memoryRun) calls(ctx context.Context, g *ground) (_ []measuredAt, err error) {
	r, err := startReceiver(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	g.spec = func(s *job.Spec) { s.Destination = r.url }
	defer func() { g.spec = nil }()
	if err := errors.Join(g.next(ctx), g.insert(ctx, m.command.HTTP)); err != nil {
		return nil, err
	}
	config := configOf(dulyHTTP, "channel: http, http: {allow_networks: [127.0.0.0/8]}")
	dispatcher, err := startProgram(ctx, g, filepath.Join(m.bin, "dispatcher"), config)
	if err != nil {
		return nil, err
	}
	worker, err := m.measure(ctx, g, "worker", fmt.Sprintf("HTTP requests, %d slots", dulyHTTP.slots), m.command.HTTP, config, nil, g.delivered)
	_, stopped := dispatcher.stop()
	return []measuredAt{worker}, errors.Join(err, stopped)
}

// promotes measures a scheduler that finds many jobs due.
func (m *memoryRun) promotes(ctx context.Context, g *ground) ([]measuredAt, error) {
	n := m.command.Scheduled
	due := time.Now().Add(time.Duration(n)*time.Second/20_000 + 2*time.Second)
	if err := g.next(ctx); err != nil {
		return nil, err
	}
	g.spec = func(s *job.Spec) { s.Kind, s.Due = standingKind, due }
	defer func() { g.spec = nil }()
	if err := errors.Join(g.insert(ctx, n), waitFor(ctx, time.Until(due))); err != nil {
		return nil, err
	}
	scheduler, err := m.measure(ctx, g, "scheduler", count(n)+" jobs due at once", n, configOf(dulyBest, "channel: go"), nil, func(ctx context.Context) (bool, error) {
		var left bool
		err := g.pool.QueryRow(ctx, "select exists (select from duly.job where promote_at is not null)").Scan(&left)
		return !left, err
	})
	return []measuredAt{scheduler}, err
}

// measure runs a program of the product, or with arguments this one, until its work is
// done.
func (m *memoryRun) measure(ctx context.Context, g *ground, name, work string, jobs int, config string, args []string, done func(context.Context) (bool, error)) (measuredAt, error) {
	path := filepath.Join(m.bin, name)
	if len(args) > 0 {
		var err error
		if path, err = os.Executable(); err != nil {
			return measuredAt{}, err
		}
	}
	if err := m.stack.settle(ctx); err != nil {
		return measuredAt{}, err
	}
	p, err := startProgram(ctx, g, path, config, args...)
	if err != nil {
		return measuredAt{}, err
	}
	began := time.Now()
	err = until(ctx, func() (bool, error) { return done(ctx) })
	one := measuredAt{Program: name, Work: work, Jobs: jobs, Seconds: time.Since(began).Seconds()}
	var stopped error
	one.footprint, stopped = p.stop()
	return one, errors.Join(err, stopped)
}

// insertOneByOne enqueues n jobs, each by a statement of its own and so in a row of the
// outbox of its own.
func (g *ground) insertOneByOne(ctx context.Context, n int) error {
	if err := g.next(ctx); err != nil {
		return err
	}
	const clients, transaction = 4, 500
	return batches(ctx, clients, n, transaction, func(ctx context.Context, from, to int) error {
		tx, err := g.pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		for i := from; i < to; i++ {
			if _, err := g.client.Schedule(ctx, tx, g.job(fmt.Sprintf("single:%d", i))); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
}

// delivered reports whether every job of this turn is.
func (g *ground) delivered(ctx context.Context) (bool, error) {
	var left bool
	err := g.pool.QueryRow(ctx, `select exists (select from (select state from duly.job where id > $1 order by id desc) j where state <> 'delivered')`, g.last).Scan(&left)
	return !left, err
}

// memoryTarget is the most that a worker or a dispatcher may need, in bytes.
const memoryTarget = 100_000_000

// markdown is the part of docs/performance.md.
func (f memoryFigures) markdown() string {
	var b strings.Builder
	b.WriteString("### Memory\n\n" + f.Facts.String() +
		"\nEach program in a process of its own, built as for a release; NATS and the receiver of the HTTP requests run in others. The most resident memory that the process ever had (VmHWM), and the most goroutines that were seen.\n\n")
	titles := []string{"program", "work"}
	for _, g := range f.Grounds {
		titles = append(titles, "MB, "+g.Title, "goroutines", "jobs/s")
	}
	t := newTable(true, append(titles, "≤ 100 MB")...)
	for _, one := range f.Footprints {
		if one.Ground != f.Grounds[0].Key {
			continue
		}
		cells := []string{one.Program, one.Work}
		met := true
		for _, g := range f.Grounds {
			at := f.at(one.Program, one.Work, g.Key)
			met = met && at.Peak <= memoryTarget
			cells = append(cells, number(float64(at.Peak)/1e6), grouped(int64(at.Goroutines)), number(float64(at.Jobs)/at.Seconds))
		}
		t.row(append(cells, verdict(met))...)
	}
	b.WriteString(t.String())
	return b.String()
}

// at is what was measured of a program at a work on a ledger.
func (f memoryFigures) at(program, work, ground string) measuredAt {
	for _, one := range f.Footprints {
		if one.Program == program && one.Work == work && one.Ground == ground {
			return one
		}
	}
	return measuredAt{}
}
