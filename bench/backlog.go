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
)

// backlogCommand is what `go run . backlog` takes.
type backlogCommand struct {
	Jobs  int           `help:"How many ready jobs wait on the bus while no worker runs." default:"1000000"`
	Away  time.Duration `help:"How long the fleet stays away behind them." default:"5m"`
	Out   string        `help:"Folder for backlog.json and the part of performance.md; by default that is printed." placeholder:"DIR"`
	Quick bool          `help:"A small size, to see whether everything works; its figures mean nothing."`
}

// quick makes every size small.
func (c *backlogCommand) quick() { c.Jobs, c.Away = 20_000, 15*time.Second }

// backlogFigures is what the command found.
type backlogFigures struct {
	Facts facts          `json:"facts"`
	Plan  backlogCommand `json:"plan"`
	// Standing are the marks that had not passed when the fleet came back.
	Standing int `json:"standing_marks"`
	// Drained is how many seconds the fleet took for the backlog, and Judged how many
	// passed until all of it was judged.
	Drained float64 `json:"drained_seconds"`
	Judged  float64 `json:"judged_seconds"`
	// Reemitted are announcements beside the first of each job: while the fleet was away,
	// and in all.
	ReemittedAway int64 `json:"reemitted_away"`
	Reemitted     int64 `json:"reemitted"`
}

// reemittedTarget is the most that may be announced anew without need, of what waits.
const reemittedTarget = 0.001

// Run measures and reports.
func (c backlogCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Quick {
		c.quick()
	}
	f := backlogFigures{Plan: c}
	err := measured(ctx, p, nil, &f.Facts, func(s *Stack) error {
		return f.measure(ctx, s, p.Stderr)
	})
	if err != nil {
		return err
	}
	return report(p, c.Out, part{"performance.md", "backlog", f.markdown()}, f)
}

// measure runs a scheduler and a dispatcher all the time, and a worker before and after
// the backlog.
func (f *backlogFigures) measure(ctx context.Context, s *Stack, out io.Writer) (err error) {
	bin := filepath.Join(s.Dir, "bin")
	if err := buildPrograms(ctx, bin, "scheduler", "dispatcher"); err != nil {
		return err
	}
	g, err := newGround(ctx, s, "backlog", dulyBest)
	if err != nil {
		return err
	}
	if err := g.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close(ctx), s.Drop(ctx, g.database)) }()
	config := configOf(dulyBest, "channel: go")
	var running []*program
	defer func() {
		for _, p := range running {
			_, stopped := p.stop()
			err = errors.Join(err, stopped)
		}
	}()
	for _, name := range []string{"scheduler", "dispatcher"} {
		p, err := startProgram(ctx, g, filepath.Join(bin, name), config)
		if err != nil {
			return err
		}
		running = append(running, p)
	}
	if err := f.before(ctx, g, config); err != nil {
		return err
	}
	if err := f.wait(ctx, g); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d marks stand, %d announced anew\n", f.Standing, f.ReemittedAway)
	return f.after(ctx, g, config)
}

// before has a fleet work a little, so that marks have passed, and ends it.
func (f *backlogFigures) before(ctx context.Context, g *ground, config string) error {
	if err := errors.Join(g.next(ctx), g.insert(ctx, 1000)); err != nil {
		return err
	}
	return withWorker(ctx, g, config, func() error {
		return until(ctx, func() (bool, error) { return g.delivered(ctx) })
	})
}

// withWorker runs a worker beside do.
func withWorker(ctx context.Context, g *ground, config string, do func() error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	worker, err := startProgram(ctx, g, self, config, "work")
	if err != nil {
		return err
	}
	err = do()
	_, stopped := worker.stop()
	return errors.Join(err, stopped)
}

// wait puts the backlog on the bus and leaves it there.
func (f *backlogFigures) wait(ctx context.Context, g *ground) error {
	if err := errors.Join(g.next(ctx), g.insert(ctx, f.Plan.Jobs)); err != nil {
		return err
	}
	l := ledger.New(g.pool.Pool)
	err := until(ctx, func() (bool, error) {
		depth, err := l.OutboxDepth(ctx, "bench", 1)
		return depth == 0, err
	})
	if err := errors.Join(err, waitFor(ctx, f.Plan.Away)); err != nil {
		return err
	}
	if f.ReemittedAway, err = g.reemitted(ctx); err != nil {
		return err
	}
	return g.pool.QueryRow(ctx, "select count(*) from duly.mark where passed_at is null").Scan(&f.Standing)
}

// after brings the fleet back until everything is delivered and judged.
func (f *backlogFigures) after(ctx context.Context, g *ground, config string) error {
	began := time.Now()
	err := withWorker(ctx, g, config, func() error {
		if err := until(ctx, func() (bool, error) { return g.delivered(ctx) }); err != nil {
			return err
		}
		f.Drained = time.Since(began).Seconds()
		return until(ctx, func() (judged bool, err error) {
			err = g.pool.QueryRow(ctx, "select not exists (select from duly.mark where topic = 'bench')").Scan(&judged)
			return judged, err
		})
	})
	f.Judged = time.Since(began).Seconds()
	if err != nil {
		return err
	}
	if err := g.check(ctx, f.Plan.Jobs); err != nil {
		return err
	}
	f.Reemitted, err = g.reemitted(ctx)
	return err
}

// reemitted counts the announcements beside the first of each job of this turn.
func (g *ground) reemitted(ctx context.Context) (n int64, err error) {
	err = g.pool.QueryRow(ctx, "select coalesce(sum(emission - 1), 0) from duly.job where id > $1", g.last).Scan(&n)
	return n, err
}

// markdown is the part of docs/performance.md.
func (f backlogFigures) markdown() string {
	var b strings.Builder
	b.WriteString("### A backlog behind a stopped fleet\n\n" + f.Facts.String())
	fmt.Fprintf(&b, "\nA scheduler, a dispatcher and NATS run all the time. The one worker has stopped; %s jobs that are due are enqueued and relayed, and stay on the bus for %s. Then a worker comes back, "+
		"and everything is watched until the marks behind the backlog have passed and all that they cover was judged.\n\n", count(f.Plan.Jobs), f.Plan.Away)
	t := newTable(true, "", "", "≤ 0.1 %")
	share := float64(f.Reemitted) / float64(f.Plan.Jobs)
	t.row("announced anew while nobody was there", grouped(f.ReemittedAway), "")
	t.row("announced anew in all", fmt.Sprintf("%s of %s", grouped(f.Reemitted), count(f.Plan.Jobs)), verdict(share <= reemittedTarget))
	t.row("marks that stood when the fleet came back", grouped(int64(f.Standing)), "")
	t.row("seconds until all was delivered", number(f.Drained), "")
	t.row("seconds until all was judged", number(f.Judged), "")
	b.WriteString(t.String())
	return b.String()
}
