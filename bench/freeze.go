package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"github.com/jackc/pgx/v5"
)

// freezeCommand is what `go run . freeze` takes.
type freezeCommand struct {
	Recipients int           `help:"How many recipients the run's selection yields." default:"1000000"`
	Rate       int           `help:"How many unrelated jobs a second are enqueued meanwhile, one a transaction, due now." default:"100"`
	Before     time.Duration `help:"How long those are enqueued before the freeze." default:"10s"`
	Rounds     int           `help:"How many runs are frozen, one after the other." default:"3"`
	Out        string        `help:"Folder for freeze.json and the part of performance.md; by default that is printed." placeholder:"DIR"`
	Quick      bool          `help:"A small size, to see whether everything works; its figures mean nothing."`
}

// quick makes every size small.
func (c *freezeCommand) quick() { c.Recipients, c.Before, c.Rounds = 20_000, time.Second, 1 }

// freezeFigures is what the command found.
type freezeFigures struct {
	Facts  facts         `json:"facts"`
	Plan   freezeCommand `json:"plan"`
	Rounds []frozenRun   `json:"rounds"`
	// Scheduler is how large the scheduler's process became over all rounds.
	Scheduler footprint `json:"scheduler"`
}

// frozenRun is one freeze.
type frozenRun struct {
	Seconds float64 `json:"seconds"`
	// Before and During are the latencies of unrelated jobs, by the ledger's clock, from
	// their enqueue until they were delivered.
	Before paced `json:"before"`
	During paced `json:"during"`
}

// paced are latencies in milliseconds.
type paced struct {
	Jobs int     `json:"jobs"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

// The targets: seconds of a freeze of a million, resident memory of the scheduler, and the
// latency of unrelated jobs meanwhile.
const (
	freezeTarget       = 30
	freezeMemoryTarget = 200_000_000
	freezeP99Target    = 100
)

const frozenSchedule = "digest"

// Run measures and reports.
func (c freezeCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Quick {
		c.quick()
	}
	f := freezeFigures{Plan: c}
	err := measured(ctx, p, nil, &f.Facts, func(s *Stack) error {
		return f.measure(ctx, s, p.Stderr)
	})
	if err != nil {
		return err
	}
	return report(p, c.Out, part{"performance.md", "freeze", f.markdown()}, f)
}

// measure runs a scheduler, a dispatcher and a worker, and freezes runs beside their work.
func (f *freezeFigures) measure(ctx context.Context, s *Stack, out io.Writer) (err error) {
	bin := filepath.Join(s.Dir, "bin")
	if err := buildPrograms(ctx, bin, "scheduler", "dispatcher"); err != nil {
		return err
	}
	g, err := newGround(ctx, s, "freeze", dulyBest)
	if err != nil {
		return err
	}
	if err := g.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close(ctx), s.Drop(ctx, g.database)) }()
	_, err = g.pool.Exec(ctx, fmt.Sprintf(`create table customer (id int primary key, mail text not null, name text not null);
		insert into customer select n, 'customer-' || n || '@example.com', 'Customer ' || n from generate_series(1, %d) n;
		analyze customer`, f.Plan.Recipients))
	if err != nil {
		return fmt.Errorf("making the recipients: %w", err)
	}
	config := configOf(dulyBest, "channel: go") + `schedules:
  ` + frozenSchedule + `:
    cron: "0 9 1 1 *"
    zone: UTC
    period: date
    kind: ` + standingKind + `
    key: "digest:{period}:{customer}"
    select: >
      select id::text as customer, mail as destination, 'customer ' || id as subject,
      json_build_object('name', name, 'text', repeat('x', 60)) as payload from customer
`
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dispatcher, err := startProgram(ctx, g, filepath.Join(bin, "dispatcher"), config)
	if err != nil {
		return err
	}
	worker, err := startProgram(ctx, g, self, config, "work")
	if err != nil {
		return err
	}
	scheduler, err := startProgram(ctx, g, filepath.Join(bin, "scheduler"), config)
	if err != nil {
		return err
	}
	for round := range f.Plan.Rounds {
		var one frozenRun
		if one, err = f.round(ctx, g, round); err != nil {
			break
		}
		f.Rounds = append(f.Rounds, one)
		_, _ = fmt.Fprintf(out, "%d/%d froze %d in %.1f s; unrelated jobs p50 %.1f, p99 %.1f ms before, %.1f and %.1f meanwhile\n", round+1, f.Plan.Rounds,
			f.Plan.Recipients, one.Seconds, one.Before.P50, one.Before.P99, one.During.P50, one.During.P99)
	}
	var stopped error
	f.Scheduler, stopped = scheduler.stop()
	err = errors.Join(err, stopped)
	for _, p := range []*program{worker, dispatcher} {
		_, stopped := p.stop()
		err = errors.Join(err, stopped)
	}
	return err
}

// round opens a run and waits until it is frozen.
func (f *freezeFigures) round(ctx context.Context, g *ground, round int) (frozenRun, error) {
	if err := waitFor(ctx, warmUp); err != nil {
		return frozenRun{}, err
	}
	key := func(when string, i int) string { return fmt.Sprintf("paced:%d:%s:%d", round, when, i) }
	schedule := func(when string) func(context.Context, int, time.Time) error {
		return func(ctx context.Context, i int, _ time.Time) error {
			return pgx.BeginFunc(ctx, g.pool.Pool, func(tx pgx.Tx) error {
				_, err := g.client.Schedule(ctx, tx, g.job(key(when, i)))
				return err
			})
		}
	}
	if _, err := drip(ctx, f.Plan.Rate, f.Plan.Before, schedule("before")); err != nil {
		return frozenRun{}, err
	}
	l := ledger.New(g.pool.Pool)
	at := time.Date(2100+round, 1, 1, 9, 0, 0, 0, time.UTC)
	run, _, err := l.StartRun(ctx, frozenSchedule, standingKind, machine.Opening{
		Period: at.Format(time.DateOnly), At: at, Local: at.Format("2006-01-02T15:04:05"), Zone: "UTC", Cause: machine.RunManual, Actor: "bench",
	})
	if err != nil {
		return frozenRun{}, err
	}
	var frozen atomic.Bool
	dripping := make(chan error, 1)
	go func() {
		for n := 0; !frozen.Load(); n++ {
			if _, err := drip(ctx, f.Plan.Rate, time.Second, schedule("during:"+strconv.Itoa(n))); err != nil {
				dripping <- err
				return
			}
		}
		dripping <- nil
	}()
	err = until(ctx, func() (bool, error) {
		var err error
		run, err = l.Run(ctx, frozenSchedule, run.Period)
		if err == nil && run.Tries > 0 {
			err = fmt.Errorf("the freeze failed: %s", run.Error)
		}
		return run.State == machine.RunFrozen, err
	})
	frozen.Store(true)
	if err = errors.Join(err, <-dripping); err != nil {
		return frozenRun{}, err
	}
	if run.Expected() != int64(f.Plan.Recipients) {
		return frozenRun{}, fmt.Errorf("the run expects %d members", run.Expected())
	}
	if err := waitFor(ctx, warmUp); err != nil {
		return frozenRun{}, err
	}
	one := frozenRun{Seconds: run.Frozen.Sub(run.Created).Seconds()}
	one.Before, err = g.latencies(ctx, fmt.Sprintf("paced:%d:before:%%", round), time.Time{})
	if err != nil {
		return one, err
	}
	one.During, err = g.latencies(ctx, fmt.Sprintf("paced:%d:during:%%", round), run.Frozen)
	return one, err
}

// latencies are those of jobs that were enqueued before an instant; zero is any.
func (g *ground) latencies(ctx context.Context, keys string, before time.Time) (p paced, err error) {
	var bound *time.Time
	if !before.IsZero() {
		bound = &before
	}
	err = g.pool.QueryRow(ctx, `
		select count(*), coalesce(1000 * percentile_cont(0.5) within group (order by extract(epoch from ended_at - created_at)), 0),
		       coalesce(1000 * percentile_cont(0.99) within group (order by extract(epoch from ended_at - created_at)), 0)
		from duly.job where key like '%' || $1 and state = 'delivered' and ($2::timestamptz is null or created_at < $2)`, keys, bound).Scan(&p.Jobs, &p.P50, &p.P99)
	if err == nil && p.Jobs == 0 {
		err = errors.New("no unrelated job was delivered")
	}
	return p, err
}

// markdown is the part of docs/performance.md.
func (f freezeFigures) markdown() string {
	var b strings.Builder
	b.WriteString("### Freezing a run\n\n" + f.Facts.String())
	fmt.Fprintf(&b, "\nA scheduler, a dispatcher and a worker in processes of their own. The selection of a run yields %s recipients from a table in the ledger's database; it is frozen in one transaction, from "+
		"when it was opened (the scheduler looks once a second) until its commit. Meanwhile unrelated jobs come, %d a second, one a transaction and due now: their latency is by the ledger's clock, from enqueue until delivered.\n\n",
		count(f.Plan.Recipients), f.Plan.Rate)
	t := newTable(true, "round", "seconds", "≤ 30 s", "p50 before, ms", "p99 before", "p50 meanwhile", "p99 meanwhile", "≤ 100 ms")
	for i, r := range f.Rounds {
		t.row(strconv.Itoa(i+1), number(r.Seconds), verdict(r.Seconds <= freezeTarget), number(r.Before.P50), number(r.Before.P99), number(r.During.P50), number(r.During.P99),
			verdict(r.During.P99 <= freezeP99Target))
	}
	b.WriteString(t.String())
	fmt.Fprintf(&b, "\nThe scheduler's process never had more than %s MB of resident memory (target 200 MB: %s), and %d goroutines.\n",
		number(float64(f.Scheduler.Peak)/1e6), verdict(f.Scheduler.Peak <= freezeMemoryTarget), f.Scheduler.Goroutines)
	return b.String()
}
