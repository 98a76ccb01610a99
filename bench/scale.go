package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"duly.dev/duly/internal/app"
)

// scaleCommand is what `go run . scale` takes.
type scaleCommand struct {
	Rounds  int           `help:"How many rounds; medians are over them." default:"3"`
	Jobs    int           `help:"How many jobs are inserted and worked at once, on one ledger or on two together." default:"300000"`
	Workers int           `help:"How many workers the large fleet has." default:"100"`
	Slots   int           `help:"How many slots each of them has; one worker alone has all." default:"10"`
	Idle    time.Duration `help:"How long an idle fleet is watched." default:"20s"`
	Latency time.Duration `help:"How long latency is measured." default:"10s"`
	Out     string        `help:"Folder for scale.json and the part of scale.md; by default that is printed." placeholder:"DIR"`
	Quick   bool          `help:"Small sizes, to see whether everything works; its figures mean nothing."`
}

// scaleFigures is what the command found.
type scaleFigures struct {
	Facts facts        `json:"facts"`
	Plan  scaleCommand `json:"plan"`
	// One and Two are jobs on one ledger, and on two at once, each with its own server,
	// broker and loops; a sample of Two is of both together.
	One []Sample `json:"one_ledger"`
	Two []Sample `json:"two_ledgers"`
	// Small and Large are a worker alone, and a fleet of as many slots.
	Small []fleetFigures `json:"one_worker"`
	Large []fleetFigures `json:"fleet"`
	// Wire is what passes between processes, Disk what stays.
	Wire wireFigures `json:"wire"`
	Disk diskFigures `json:"disk"`
}

// wireFigures are bytes a job, both ways.
type wireFigures struct {
	Jobs int `json:"jobs"`
	Pack int `json:"pack"`
	// Postgres and Bus are from and to the loops; what producers send is not among it.
	Postgres float64 `json:"postgres_bytes_per_job"`
	Bus      float64 `json:"bus_bytes_per_job"`
}

// diskFigures are bytes a finished job.
type diskFigures struct {
	Jobs int `json:"jobs"`
	// Kept are those of tables that leave with the retention, Keys of those that stay.
	Kept float64 `json:"kept_bytes_per_job"`
	Keys float64 `json:"key_bytes_per_job"`
}

// scaleRun is a run of the command.
type scaleRun struct {
	command scaleCommand
	out     io.Writer
	figures scaleFigures
}

// quick makes every size small.
func (c *scaleCommand) quick() {
	c.Rounds, c.Jobs, c.Workers, c.Idle, c.Latency = 1, 4000, 5, 2*time.Second, time.Second
}

// Run measures and reports.
func (c scaleCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Quick {
		c.quick()
	}
	r := &scaleRun{command: c, out: p.Stderr}
	settings := merged(preload(), map[string]string{"max_connections": "1000"})
	err := measured(ctx, p, settings, &r.figures.Facts, func(s *Stack) error {
		if err := r.fleets(ctx, s); err != nil {
			return err
		}
		if err := r.wire(ctx, s); err != nil {
			return err
		}
		return onStack(ctx, p, settings, func(second *Stack) error { return r.ledgers(ctx, []*Stack{s, second}) })
	})
	if err != nil {
		return err
	}
	r.figures.Plan = c
	return report(p, c.Out, part{"scale.md", "scale", r.figures.markdown()}, r.figures)
}

func (r *scaleRun) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, format+"\n", args...)
}

// ledgers measures one ledger and two, in turn.
func (r *scaleRun) ledgers(ctx context.Context, stacks []*Stack) error {
	for round := 1; round <= r.command.Rounds; round++ {
		for n := 1; n <= 2; n++ {
			s, err := onLedgers(ctx, stacks[:n], r.command.Jobs, r.command.Quick)
			if err != nil {
				return fmt.Errorf("on %d ledgers: %w", n, err)
			}
			s.Round = round
			r.sayf("%d/%d %d ledgers %s", round, r.command.Rounds, n, s)
			if n == 1 {
				r.figures.One = append(r.figures.One, s)
			} else {
				r.figures.Two = append(r.figures.Two, s)
			}
		}
	}
	return nil
}

// onLedgers inserts and works n jobs at once, shared out over a ledger on each of the
// servers. Nothing of one knows of another.
func onLedgers(ctx context.Context, stacks []*Stack, n int, hasty bool) (sum Sample, err error) {
	grounds := make([]*ground, 0, len(stacks))
	defer func() {
		for _, g := range grounds {
			err = errors.Join(err, g.Close(ctx))
		}
	}()
	tallies := make([]*tally, len(stacks))
	m := newMeter(stacks[0], n)
	wal := int64(0)
	for i, s := range stacks {
		g, err := newGround(ctx, s, "scale", dulyBest)
		if err != nil {
			return sum, err
		}
		grounds = append(grounds, g)
		g.hasty = hasty
		if err := g.open(ctx); err != nil {
			return sum, err
		}
		if err := g.begin(ctx); err != nil {
			return sum, err
		}
		if tallies[i], err = g.ready(ctx, g.config); err != nil {
			return sum, err
		}
		if i > 0 {
			m.Server(s.postmaster)
			before, err := s.wal(ctx)
			if err != nil {
				return sum, err
			}
			wal -= before
		}
	}
	if err := m.Begin(ctx); err != nil {
		return sum, err
	}
	share := n / len(stacks)
	if err := together(ctx, len(grounds), func(ctx context.Context, i int) error {
		if err := grounds[i].insert(ctx, share); err != nil {
			return err
		}
		return grounds[i].running.wait(ctx, tallies[i], share)
	}); err != nil {
		return sum, err
	}
	if err := m.Done(ctx); err != nil {
		return sum, err
	}
	for i, g := range grounds {
		if err := errors.Join(g.halt(), g.check(ctx, share)); err != nil {
			return sum, err
		}
		if i > 0 {
			after, err := g.stack.wal(ctx)
			if err != nil {
				return sum, err
			}
			wal += after
		}
	}
	sum, err = m.result()
	sum.WAL += wal
	sum.Measure = fmt.Sprintf("both on %d", len(stacks))
	return sum, err
}

// fleets measures a worker alone and many with as many slots together, in turn.
func (r *scaleRun) fleets(ctx context.Context, s *Stack) error {
	c := r.command
	plan := fleetPlan{jobs: c.Jobs / 3, pack: c.Slots, idle: c.Idle, latency: c.Latency, hasty: c.Quick}
	for round := 1; round <= c.Rounds; round++ {
		for _, size := range []sizeOf{{1, c.Workers * c.Slots}, {c.Workers, c.Slots}} {
			f, err := measureFleet(ctx, s, size, plan)
			if err != nil {
				return fmt.Errorf("%s: %w", size, err)
			}
			r.sayf("%d/%d %-26s %d connections, registered in %.1f s, idle %.1f%% + %.1f%% of a core", round, c.Rounds, size, f.Connections, f.Registered,
				100*f.Idle.ClientCPU/f.Idle.Seconds, 100*f.Idle.ServerCPU/f.Idle.Seconds)
			r.sayf("    %s\n    %s", f.Both, f.Latency)
			if size.Workers == 1 {
				r.figures.Small = append(r.figures.Small, f)
			} else {
				r.figures.Large = append(r.figures.Large, f)
			}
		}
	}
	return nil
}

// wire measures what passes between processes, and then what stays on disk.
func (r *scaleRun) wire(ctx context.Context, s *Stack) (err error) {
	n := r.command.Jobs / 3
	pack := dulyBest.pack
	g, err := newGround(ctx, s, "wire", dulyBest)
	if err != nil {
		return err
	}
	if g.config, err = fleetConfig(dulyBest.slots, pack); err != nil {
		return err
	}
	if err := g.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	postgres, ledgerURL, err := startProxy(ctx, g.url)
	if err != nil {
		return err
	}
	bus, busURL, err := startProxy(ctx, g.nats.URL())
	if err != nil {
		return errors.Join(err, postgres.stop())
	}
	done := newTally()
	f := fleetOn(g, g.config, ledgerURL, busURL, func(jobs []int64) { done.add(len(jobs)) })
	defer func() { err = errors.Join(err, f.stop(), postgres.stop(), bus.stop()) }()
	if err := errors.Join(f.start(ctx, 1), waitFor(ctx, warmUp)); err != nil {
		return err
	}
	toPostgres, toBus := postgres.bytes(), bus.bytes()
	if err := errors.Join(g.insert(ctx, n), done.wait(ctx, n)); err != nil {
		return err
	}
	r.figures.Wire = wireFigures{
		Jobs: n, Pack: pack,
		Postgres: float64(postgres.bytes()-toPostgres) / float64(n), Bus: float64(bus.bytes()-toBus) / float64(n),
	}
	r.figures.Disk, err = g.disk(ctx, n)
	r.sayf("a job passes %.0f bytes to and from PostgreSQL and %.0f to and from the bus, and leaves %.0f on disk and %.0f of its key", r.figures.Wire.Postgres, r.figures.Wire.Bus, r.figures.Disk.Kept, r.figures.Disk.Keys)
	return err
}

// disk asks what n finished jobs take, the outbox not among it: that is empty again within
// the hour.
func (g *ground) disk(ctx context.Context, n int) (diskFigures, error) {
	d := diskFigures{Jobs: n}
	if err := g.tidy(ctx); err != nil {
		return d, err
	}
	var kept, keys int64
	err := g.pool.QueryRow(ctx, `select coalesce(sum(pg_total_relation_size(oid)) filter (where relname <> 'job_key'), 0)::bigint, coalesce(sum(pg_total_relation_size(oid)) filter (where relname = 'job_key'), 0)::bigint
		from pg_class where relnamespace = 'duly'::regnamespace and relkind = 'r' and relname ~ '^(job|job_key|lease_.*|event_.*|done_.*)$'`).Scan(&kept, &keys)
	d.Kept, d.Keys = float64(kept)/float64(n), float64(keys)/float64(n)
	return d, err
}
