package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
	"github.com/jackc/pgx/v5"
)

// flatCommand is what `go run . flat` takes.
type flatCommand struct {
	Rounds       int           `help:"How many rounds; medians are over them." default:"3"`
	Jobs         int           `help:"How many jobs a bulk measurement has." default:"300000"`
	Latency      time.Duration `help:"How long latency is measured." default:"10s"`
	History      int           `help:"How many finished jobs stand in the ledger." default:"10000000"`
	Days         int           `help:"Over how many days they are spread." default:"20"`
	Backlog      int           `help:"How many jobs are ready and not worked." default:"1000000"`
	Scheduled    int           `help:"How many jobs are scheduled in the future." default:"1000000"`
	Destinations int           `help:"How many destinations jobs have." default:"10000"`
	Keys         int           `help:"How many jobs with random keys are worked." default:"3000000"`
	Held         time.Duration `help:"How long a transaction that has written is held open." default:"60s"`
	Only         []string      `help:"Conditions, as patterns: history, backlog, scheduled, destinations, keys, held. All by default." placeholder:"NAME"`
	Postgres     []string      `help:"Settings of the server." placeholder:"NAME=VALUE"`
	Out          string        `help:"Folder for flat.json and the part of performance.md; by default that is printed." placeholder:"DIR"`
	Quick        bool          `help:"Small sizes, to see whether everything works; its figures mean nothing."`
}

// quick makes everything small.
func (c *flatCommand) quick() {
	c.Rounds, c.Jobs, c.Latency = 1, 2000, time.Second
	c.History, c.Backlog, c.Scheduled, c.Destinations, c.Keys, c.Held = 50_000, 10_000, 10_000, 100, 20_000, 3*time.Second
}

// condition is something that a ledger is to be as fast under as when it is empty.
type condition struct {
	key, title string
	prepare    func(ctx context.Context, g *ground) error
	spec       func(*job.Spec)
}

// emptyKey is the ground that the others are compared with.
const emptyKey = "empty"

// conditions are those that are measured in interleaved rounds; the first is emptyKey.
func (f *flatRun) conditions() []condition {
	c := f.command
	all := []condition{
		{key: emptyKey, title: "empty ledger", spec: oneDestination(1)},
		{
			key: "history", title: fmt.Sprintf("%s finished jobs of %d days", count(c.History), c.Days), spec: oneDestination(1),
			prepare: func(ctx context.Context, g *ground) (err error) {
				f.figures.History, err = g.grow(ctx, c.History, c.Days, historySample)
				return err
			},
		},
		{
			key: "backlog", title: count(c.Backlog) + " ready that nobody works", spec: oneDestination(1),
			prepare: func(ctx context.Context, g *ground) error {
				return g.stand(ctx, c.Backlog, func() time.Time { return time.Time{} })
			},
		},
		{
			key: "scheduled", title: count(c.Scheduled) + " scheduled in the next 30 days", spec: oneDestination(1),
			prepare: func(ctx context.Context, g *ground) error {
				return g.stand(ctx, c.Scheduled, func() time.Time { return time.Now().Add(24*time.Hour + rand.N(29*24*time.Hour)) })
			},
		},
		{key: "destinations", title: count(c.Destinations) + " destinations", spec: oneDestination(c.Destinations)},
	}
	return slices.DeleteFunc(all, func(c condition) bool { return c.key != emptyKey && !matches(f.command.Only, c.key) })
}

// oneDestination gives each job one of n destinations, in turn.
func oneDestination(n int) func(*job.Spec) {
	var next atomic.Int64
	return func(s *job.Spec) {
		s.Destination = fmt.Sprintf("https://receiver-%06d.example.com/reminders", next.Add(1)%int64(n))
	}
}

// flatRun is a run of the command.
type flatRun struct {
	command flatCommand
	stack   *Stack
	out     io.Writer
	figures flatFigures
}

// say tells what happens now.
func (f *flatRun) sayf(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

// Run measures and reports.
func (c flatCommand) Run(ctx context.Context, p *app.Process) (err error) {
	if c.Quick {
		c.quick()
		warmUp = 100 * time.Millisecond
	}
	settings, err := assignments(c.Postgres)
	if err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	f := &flatRun{command: c, out: p.Stderr}
	f.sayf("%s", c.estimate())
	err = measured(ctx, p, merged(preload(), settings), &f.figures.Facts, func(s *Stack) error {
		f.stack = s
		return f.run(ctx)
	})
	if err != nil {
		return err
	}
	f.figures.Plan = c
	return report(p, c.Out, part{"performance.md", "flat", f.figures.markdown()}, f.figures)
}

// estimate says how long it will take, roughly, on two cores.
func (c flatCommand) estimate() string {
	const perSecond = 40_000
	turn := 4*time.Second + c.Latency + 3*time.Duration(c.Jobs)*time.Second/perSecond
	rounds := time.Duration(c.Rounds*5) * turn
	stand := time.Duration(c.History+c.Keys+2*c.Backlog+2*c.Scheduled) * time.Second / perSecond
	held := 2 * (c.Held + c.Latency)
	return fmt.Sprintf("about %s, of which %s to make what stands in the ledgers", (rounds + stand + held + time.Minute).Round(time.Minute), stand.Round(time.Second))
}

// run measures under every condition.
func (f *flatRun) run(ctx context.Context) error {
	if err := f.interleaved(ctx); err != nil {
		return err
	}
	if matches(f.command.Only, "keys") {
		if err := f.keys(ctx); err != nil {
			return err
		}
	}
	if matches(f.command.Only, "held") {
		return f.held(ctx)
	}
	return nil
}

// flatTuning is the throughput's, with as many jobs a transaction as one statement takes.
var flatTuning = dulyTuning{producers: 2, batch: 400, slots: 2000, pack: 500}

// interleaved measures under one condition after the other, and again, round by round.
func (f *flatRun) interleaved(ctx context.Context) error {
	var grounds []*ground
	defer func() {
		for _, g := range grounds {
			_ = f.stack.Drop(context.WithoutCancel(ctx), g.database)
		}
	}()
	conditions := f.conditions()
	if len(conditions) == 1 {
		return nil
	}
	for _, c := range conditions {
		g, err := f.ground(ctx, c)
		if err != nil {
			return err
		}
		grounds = append(grounds, g)
		f.figures.Conditions = append(f.figures.Conditions, named{c.key, c.title})
	}
	for round := 1; round <= f.command.Rounds; round++ {
		for i, g := range grounds {
			if conditions[i].key == emptyKey { // what the last round left is not in it
				var err error
				if g, err = f.ground(ctx, conditions[i]); err != nil {
					return err
				}
				grounds[i] = g
			}
			if err := f.turn(ctx, g, conditions[i], round); err != nil {
				return err
			}
		}
	}
	for i, g := range grounds {
		if k := conditions[i].key; k == "history" || k == emptyKey {
			if err := f.statements(ctx, g, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// ground makes a ledger in the condition.
func (f *flatRun) ground(ctx context.Context, c condition) (g *ground, err error) {
	if g, err = newGround(ctx, f.stack, "flat_"+c.key, flatTuning); err != nil {
		return nil, err
	}
	g.spec, g.hasty = c.spec, f.command.Quick
	if c.prepare == nil {
		return g, nil
	}
	began := time.Now()
	err = g.open(ctx)
	if err == nil {
		err = c.prepare(ctx, g)
	}
	err = errors.Join(err, g.Close(ctx))
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", c.title, err)
	}
	f.sayf("made %s in %s", c.title, time.Since(began).Round(time.Second))
	return g, nil
}

// flatFigure is what is measured under every condition.
type flatFigure struct {
	name, title string
	run         func(ctx context.Context, g *ground, m *Meter) error
}

// measured are they, in order: a drain works what its insert left, and latency is measured
// while no lease is young enough that the sweep of leases has yet to look at it.
func (f *flatRun) measured() []flatFigure {
	n := f.command.Jobs
	return []flatFigure{
		{"latency-500", "latency at 500/s, with defaults", func(ctx context.Context, g *ground, m *Meter) error { return g.Latency(ctx, m, 500, f.command.Latency) }},
		{"insert", "bulk insert, nothing works", func(ctx context.Context, g *ground, m *Meter) error { return g.Insert(ctx, m, n) }},
		{"drain", "work what was inserted", func(ctx context.Context, g *ground, m *Meter) error { return g.Drain(ctx, m, n) }},
		{"both", "insert and work at once", func(ctx context.Context, g *ground, m *Meter) error { return g.Both(ctx, m, n) }},
	}
}

// turn makes all measurements of one ground in one round.
func (f *flatRun) turn(ctx context.Context, g *ground, c condition, round int) error {
	if err := g.open(ctx); err != nil {
		return err
	}
	for _, m := range f.measured() {
		s, err := g.take(ctx, m.name, f.command.Jobs, func(ctx context.Context, meter *Meter) error { return m.run(ctx, g, meter) })
		if err != nil {
			return errors.Join(err, g.Close(ctx))
		}
		s.Contestant, s.Round = c.key, round
		f.figures.Samples = append(f.figures.Samples, s)
		f.sayf("%d/%d %-12s %s", round, f.command.Rounds, c.key, s)
	}
	return g.Close(ctx)
}

// String is a line about the sample.
func (s Sample) String() string {
	line := fmt.Sprintf("%-12s %8.0f jobs/s  %5.1f + %5.1f µs CPU  %6.0f B of WAL", s.Measure, s.Rate(),
		1e6*s.ClientCPU/float64(s.Jobs), 1e6*s.ServerCPU/float64(s.Jobs), float64(s.WAL)/float64(s.Jobs))
	if l := s.Latency; l != nil {
		line += fmt.Sprintf("  p50 %.1f p99 %.1f ms", l.P50, l.P99)
	}
	if s.Others > calmBelow {
		line += fmt.Sprintf("  disturbed: others used %.0f %% of the machine", 100*s.Others)
	}
	return line
}

// statements counts the statements of one more run in the ground, and every scan of a
// whole table, while all loops run.
func (f *flatRun) statements(ctx context.Context, g *ground, key string) error {
	if err := g.open(ctx); err != nil {
		return err
	}
	s, err := f.statementsOf(ctx, g)
	s.Ground = key
	f.figures.Statements = append(f.figures.Statements, s)
	return errors.Join(err, g.Close(ctx))
}

// loopsRun is how long loops are watched when no job is there: each has run by then.
const loopsRun = 12 * time.Second

func (f *flatRun) statementsOf(ctx context.Context, g *ground) (statementsOfGround, error) {
	s := statementsOfGround{}
	w, err := watchStatements(ctx, f.stack, g.database)
	if err != nil {
		return s, err
	}
	before, err := g.scans(ctx)
	if err != nil {
		return s, err
	}
	if s.Lap, err = g.counted(ctx, f.command.Jobs); err != nil {
		return s, err
	}
	after, err := g.scans(ctx)
	if err != nil {
		return s, err
	}
	s.Scans = scansBetween(before, after)
	s.Statements, err = w.stop(ctx)
	return s, err
}

// pace is how many batches a second come while statements are counted: so few that a
// statement does not wait for a processor that another one has.
const pace = 10

// counted works about n jobs, which come one batch at a time, and lets the loops run on for
// a while.
func (g *ground) counted(ctx context.Context, n int) (Sample, error) {
	if err := g.begin(ctx); err != nil {
		return Sample{}, err
	}
	done, err := g.ready(ctx, g.config)
	if err != nil {
		return Sample{}, err
	}
	m := newMeter(g.stack, 0)
	if err := m.Begin(ctx); err != nil {
		return Sample{}, err
	}
	first := g.turn
	for range n / g.tuning.batch {
		g.turn++ // keys of their own
		if err := errors.Join(g.insert(ctx, g.tuning.batch), waitFor(ctx, time.Second/pace)); err != nil {
			return Sample{}, err
		}
	}
	m.Count((g.turn - first) * g.tuning.batch)
	if err := g.running.wait(ctx, done, m.jobs); err != nil {
		return Sample{}, err
	}
	if err := errors.Join(m.Done(ctx), waitFor(ctx, loopsRun), g.halt()); err != nil {
		return Sample{}, err
	}
	return m.result()
}

// keys works many jobs with random keys, in laps.
func (f *flatRun) keys(ctx context.Context) error {
	g, err := newGround(ctx, f.stack, "flat_keys", flatTuning)
	if err != nil {
		return err
	}
	g.hasty = f.command.Quick
	g.spec = func(s *job.Spec) { s.Key = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }
	if err := g.open(ctx); err != nil {
		return err
	}
	size := min(f.command.Jobs, f.command.Keys/4)
	laps := f.command.Keys / size / 4 * 4
	f.figures.Keys, err = g.laps(ctx, size, func(n int) bool { return n < laps })
	err = errors.Join(err, g.Close(ctx), f.stack.Drop(ctx, g.database))
	if err == nil {
		f.sayf("random keys: %s", quarters(f.figures.Keys))
	}
	return err
}

// held works laps, and then watches latency, first with nothing else going on, then while
// a transaction that has written stays open. What that wrote is a job, which is worked
// once it is committed.
func (f *flatRun) held(ctx context.Context) error {
	for _, open := range []bool{false, true} {
		h, err := f.heldOnce(ctx, open)
		if err != nil {
			return err
		}
		f.figures.Held = append(f.figures.Held, h)
		f.sayf("transaction held open: %t: %s, then p50 %.1f p99 %.1f ms", open, quarters(h.Laps), h.Latency.Latency.P50, h.Latency.Latency.P99)
	}
	return nil
}

func (f *flatRun) heldOnce(ctx context.Context, open bool) (h heldFigures, err error) {
	g, err := newGround(ctx, f.stack, "flat_held", flatTuning)
	if err != nil {
		return h, err
	}
	g.hasty = f.command.Quick
	if err := g.open(ctx); err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, g.Close(ctx), f.stack.Drop(ctx, g.database)) }()
	var tx *heldTransaction
	if open {
		if tx, err = holdTransaction(ctx, g); err != nil {
			return h, err
		}
		defer tx.close(ctx)
	}
	began := time.Now()
	h.Laps, err = g.laps(ctx, f.command.Jobs, func(n int) bool { return n < 4 || time.Since(began) < f.command.Held })
	if err != nil {
		return h, err
	}
	h.Latency, err = g.take(ctx, "latency-500", 0, func(ctx context.Context, m *Meter) error { return g.Latency(ctx, m, 500, f.command.Latency) })
	if err != nil || !open {
		return h, err
	}
	h.Held = time.Since(began).Seconds()
	h.Afterwards, err = tx.release(ctx)
	return h, err
}

// heldTransaction is a producer's transaction that has enqueued a job and does not end.
type heldTransaction struct {
	g    *ground
	conn *pgx.Conn
	tx   pgx.Tx
	job  int64
}

func holdTransaction(ctx context.Context, g *ground) (*heldTransaction, error) {
	h := &heldTransaction{g: g}
	var err error
	if h.conn, err = pgx.Connect(ctx, g.url); err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	if h.tx, err = h.conn.Begin(ctx); err == nil {
		var made duly.Scheduled
		made, err = g.client.Schedule(ctx, h.tx, g.job("held"))
		h.job = made.ID
	}
	if err != nil {
		h.close(ctx)
		return nil, fmt.Errorf("opening a transaction: %w", err)
	}
	return h, nil
}

// release commits, and returns how many milliseconds later the job was delivered.
func (h *heldTransaction) release(ctx context.Context) (float64, error) {
	if _, err := h.g.ready(ctx, h.g.config); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := h.tx.Commit(ctx); err != nil {
		return 0, fmt.Errorf("committing: %w", err)
	}
	for state := ""; state != string(job.Delivered); {
		if err := waitFor(ctx, time.Millisecond); err != nil {
			return 0, err
		}
		if err := h.g.pool.QueryRow(ctx, "select state from duly.job where id = $1", h.job).Scan(&state); err != nil {
			return 0, err
		}
	}
	return milliseconds(time.Since(began)), h.g.halt()
}

func (h *heldTransaction) close(ctx context.Context) { _ = h.conn.Close(ctx) }
