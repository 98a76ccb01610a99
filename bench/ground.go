package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/devstack"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/duly"
	"duly.dev/duly/pkg/job"
	"github.com/jackc/pgx/v5"
)

// standingKind is the kind of jobs that stand in a ground: no worker takes from its lane.
const standingKind = "standing"

// ground is a ledger that is kept from one measurement to the next, with all that stands
// in it, and Duly to work on it. Between open and Close its loops can be run.
type ground struct {
	*dulyContestant
	stack    *Stack
	database string
	// spec changes jobs of this ground, beside making their keys unique.
	spec func(*job.Spec)
	// turn numbers what is enqueued.
	turn int
	// last is the newest job before the measurement that runs.
	last int64
	// hasty waits for no calm: its figures are worth nothing.
	hasty bool
}

// newGround makes an empty ledger in a database of this name.
func newGround(ctx context.Context, s *Stack, database string, tuning dulyTuning) (*ground, error) {
	g := &ground{
		dulyContestant: &dulyContestant{load: Load{Payload: 100}, name: database, tuning: tuning, version: commit(ctx)},
		stack:          s, database: database,
	}
	g.alter = g.unique
	var err error
	if g.config, err = app.ParseConfig("throughput", fmt.Appendf(nil,
		"lanes: {bench: {pack: %d}, standing: {pack: %d}}\nkinds: {%s: {lane: bench, channel: go}, %s: {lane: standing, channel: go}}\nworker: {slots: %d}\n",
		tuning.pack, tuning.pack, dulyKind, standingKind, tuning.slots)); err != nil {
		return nil, err
	}
	if g.plain, err = app.ParseConfig("defaults", fmt.Appendf(nil,
		"lanes: {standing: {}}\nkinds: {%s: {channel: go}, %s: {lane: standing, channel: go}}\n", dulyKind, standingKind)); err != nil {
		return nil, err
	}
	if g.url, err = s.Fresh(ctx, database); err != nil {
		return nil, err
	}
	return g, ledger.MigrateUp(ctx, g.url)
}

// unique makes the job one of this turn.
func (g *ground) unique(s *job.Spec) {
	s.Key = strconv.Itoa(g.turn) + ":" + s.Key
	if g.spec != nil {
		g.spec(s)
	}
}

// open starts the broker on the streams that the last Close left, and connects.
func (g *ground) open(ctx context.Context) (err error) {
	if g.nats, err = devstack.StartNATS(devstack.NATSOptions{StoreDir: filepath.Join(g.stack.Dir, g.database)}); err != nil {
		return err
	}
	if g.pool, err = openPool(ctx, g.url); err != nil {
		return err
	}
	g.client = duly.NewClient(g.pool.Pool)
	if err := ledger.New(g.pool.Pool).SyncKinds(ctx, g.config.Kinds()); err != nil {
		return err
	}
	return g.sweep(ctx)
}

// sweep does at once what the sweeps of leases would do within minutes, about workers that
// a measurement has ended and about leases whose time is over, so that they do not do it
// in the middle of the next.
func (g *ground) sweep(ctx context.Context) error {
	const page = 1000
	l := ledger.New(g.pool.Pool)
	ended, err := l.Undrained(ctx)
	if err != nil {
		return err
	}
	for _, id := range ended {
		for s := (machine.LeaseSweep{More: true}); s.More; {
			if s, err = l.EndLeasesOf(ctx, id, s.Next, page); err != nil {
				return err
			}
		}
		if err := l.Drained(ctx, id); err != nil {
			return err
		}
	}
	for s := (machine.LeaseSweep{More: true}); s.More; {
		if s, err = l.EndOverrun(ctx, page); err != nil {
			return err
		}
	}
	return nil
}

// halt ends the loops.
func (g *ground) halt() error {
	if g.running == nil {
		return nil
	}
	err := g.running.stop()
	g.running = nil
	return err
}

// take makes one measurement from an equal start, and ends the loops that it ran.
func (g *ground) take(ctx context.Context, name string, jobs int, run func(ctx context.Context, m *Meter) error) (Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	if err := g.begin(ctx); err != nil {
		return Sample{}, err
	}
	m := newMeter(g.stack, jobs)
	err := errors.Join(run(ctx, m), g.halt())
	if err == nil {
		err = g.sweep(ctx)
	}
	if err != nil {
		return Sample{}, fmt.Errorf("%s, %s: %w", g.database, name, err)
	}
	s, err := m.result()
	s.Contestant, s.Measure = g.database, name
	return s, err
}

// begin begins a turn that is measured: from an equal start, when nobody else uses the
// machine.
func (g *ground) begin(ctx context.Context) error {
	if err := errors.Join(g.stack.settle(ctx), g.next(ctx)); err != nil || g.hasty {
		return err
	}
	return calm(ctx)
}

// next begins a turn.
func (g *ground) next(ctx context.Context) error {
	g.turn++
	if err := g.pool.QueryRow(ctx, "select case when is_called then last_value else 0 end from duly.job_id").Scan(&g.last); err != nil {
		return fmt.Errorf("asking for the newest job: %w", err)
	}
	return nil
}

// Drain works the n jobs that Insert left.
func (g *ground) Drain(ctx context.Context, m *Meter, n int) error {
	done := newTally()
	s, err := g.start(ctx, g.config, func(jobs []int64) { done.add(len(jobs)) })
	if err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	close(s.gate)
	if err := s.wait(ctx, done, n); err != nil {
		return err
	}
	return m.Done(ctx)
}

// Both enqueues n jobs and works them at once.
func (g *ground) Both(ctx context.Context, m *Meter, n int) error {
	done, err := g.ready(ctx, g.config)
	if err != nil {
		return err
	}
	if err := m.Begin(ctx); err != nil {
		return err
	}
	if err := g.insert(ctx, n); err != nil {
		return err
	}
	if err := g.running.wait(ctx, done, n); err != nil {
		return err
	}
	if err := m.Done(ctx); err != nil {
		return err
	}
	return g.check(ctx, n)
}

// paced enqueues so many jobs a second, which something else works that stops the watches.
func (g *ground) paced(ctx context.Context, m *Meter, rate int, d time.Duration, watches *stopwatches) error {
	return g.pool.latency(ctx, m, rate, d, watches, func(ctx context.Context, tx pgx.Tx, i int) (int64, error) {
		return g.scheduleOne(ctx, tx, "paced:"+strconv.Itoa(i))
	})
}

// ready starts the loops and returns what counts the jobs that they work.
func (g *ground) ready(ctx context.Context, config *app.Config) (*tally, error) {
	done := newTally()
	s, err := g.start(ctx, config, func(jobs []int64) { done.add(len(jobs)) })
	if err != nil {
		return nil, err
	}
	return done, s.ready(ctx)
}

// check makes sure that what was counted was done: n jobs of this turn are delivered.
func (g *ground) check(ctx context.Context, n int) error {
	var delivered int
	err := g.pool.QueryRow(ctx, `select count(*) from duly.job j join duly.kind k on k.id = j.kind
		where j.id > $1 and k.name = $2 and j.state = 'delivered'`, g.last, dulyKind).Scan(&delivered)
	if err == nil && delivered != n {
		err = fmt.Errorf("%w: %d delivered, %d counted", errWrongCount, delivered, n)
	}
	return err
}

// laps are measurements one after the other while the loops go on running: size jobs are
// enqueued and worked, again and again, as long as more says so.
func (g *ground) laps(ctx context.Context, size int, more func(laps int) bool) ([]Sample, error) {
	if err := g.begin(ctx); err != nil {
		return nil, err
	}
	done, err := g.ready(ctx, g.config)
	if err != nil {
		return nil, err
	}
	var all []Sample
	for more(len(all)) {
		m := newMeter(g.stack, size)
		if err := m.Begin(ctx); err != nil {
			return nil, err
		}
		if err := g.insert(ctx, size); err != nil {
			return nil, err
		}
		if err := g.running.wait(ctx, done, size*(len(all)+1)); err != nil {
			return nil, err
		}
		if err := m.Done(ctx); err != nil {
			return nil, err
		}
		s, err := m.result()
		if err != nil {
			return nil, err
		}
		s.Contestant, s.Measure, s.Round = g.database, "lap", len(all)+1
		all = append(all, s)
		g.turn++
	}
	if err := errors.Join(g.halt(), g.check(ctx, size*len(all))); err != nil {
		return nil, err
	}
	return all, g.sweep(ctx)
}

// stand enqueues n jobs that nobody works, due when the function says; those that are due
// now are on the bus when it returns.
func (g *ground) stand(ctx context.Context, n int, due func() time.Time) error {
	g.turn++
	g.alter = func(s *job.Spec) {
		g.unique(s)
		s.Kind, s.Due = standingKind, due()
	}
	err := g.insert(ctx, n)
	g.alter = g.unique
	if err != nil {
		return err
	}
	if _, err := g.ready(ctx, g.config); err != nil {
		return err
	}
	l := ledger.New(g.pool.Pool)
	err = until(ctx, func() (bool, error) {
		depth, err := l.OutboxDepth(ctx, "standing", 1)
		return depth == 0, err
	})
	return errors.Join(err, g.halt(), g.tidy(ctx))
}

// tidy does at once what autovacuum would do within minutes, so that it does not do it
// in the middle of a measurement.
func (g *ground) tidy(ctx context.Context) error {
	if _, err := g.pool.Exec(ctx, "vacuum (analyze)"); err != nil {
		return fmt.Errorf("vacuuming: %w", err)
	}
	return nil
}

// until asks every 100 ms until the answer is yes.
func until(ctx context.Context, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		if err := waitFor(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
