package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"duly.dev/duly/internal/app"
	"duly.dev/duly/internal/progress"
)

// Options say what is evaluated.
type Options struct {
	// Buses are the adapters to try, each once. Default: Memory and NATS.
	Buses []string
	// BusURL is a broker (nats://… or kafka://…) to try in place of an embedded one.
	BusURL string
	// DatabaseURL is a PostgreSQL server to try in place of an embedded one. Databases are
	// made beside the one that it names, and dropped.
	DatabaseURL string
	// Cases are the names of the cases to try. Default: all.
	Cases []string
	// AtOnce is how many worlds run at the same time. Default 6.
	AtOnce int
	// Out is a file to which the report is written as Markdown. Optional.
	Out string
	// JSON prints the report as one line of JSON on standard output, and everything else on
	// standard error.
	JSON bool

	dataDir string // of an embedded PostgreSQL; empty for a temporary one
	durable bool   // it syncs what it commits to the disk
}

// defaultAtOnce is how many worlds run at the same time: they wait, most of the time.
const defaultAtOnce = 6

// ErrViolated: something did not hold, or could not be shown to.
var ErrViolated = errors.New("the evaluation failed")

// Run tries the cases on the adapters, prints the report, and fails with ErrViolated unless
// all of it passed.
func Run(ctx context.Context, p *app.Process, o Options) (Report, error) {
	cases, err := o.check()
	if err != nil {
		return Report{}, app.Exit(app.ExitUsage, err)
	}
	log, done, err := openLog()
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	stack := app.NewStack(log)
	all, err := sites(ctx, o, stack, log, func(text string) { _, _ = fmt.Fprintln(p.Stderr, text) })
	var report Report
	if err == nil {
		report = newReport(p.Version, all)
		report.Rows = runCases(ctx, p.Stderr, log, all, cases, o.AtOnce)
		report.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	}
	err = errors.Join(err, stack.Stop(context.WithoutCancel(ctx)))
	if err != nil || ctx.Err() != nil {
		return report, errors.Join(err, ctx.Err(), done(false))
	}
	err = errors.Join(report.write(p, o.JSON, o.Out), report.verdict())
	return report, errors.Join(err, done(err == nil))
}

// check fills in the defaults and refuses what cannot be tried.
func (o *Options) check() ([]Case, error) {
	if len(o.Buses) == 0 {
		o.Buses = []string{Memory, NATS}
	}
	o.AtOnce = cmp.Or(o.AtOnce, defaultAtOnce)
	var errs []error
	for i, b := range o.Buses {
		if !slices.Contains(Adapters(), b) {
			errs = append(errs, fmt.Errorf("--bus %s: it must be one of %s", b, strings.Join(Adapters(), ", ")))
		}
		if slices.Contains(o.Buses[:i], b) {
			errs = append(errs, fmt.Errorf("--bus %s: it is named twice", b))
		}
	}
	if scheme, _, _ := strings.Cut(o.BusURL, "://"); o.BusURL != "" && !slices.Contains(o.Buses, scheme) {
		errs = append(errs, fmt.Errorf("--bus-url: its scheme must be that of a bus that is tried (--bus %s)", strings.Join(o.Buses, ",")))
	}
	if o.AtOnce < 1 {
		errs = append(errs, fmt.Errorf("--at-once %d: it must be at least 1", o.AtOnce))
	}
	all := Cases()
	cases := slices.DeleteFunc(slices.Clone(all), func(c Case) bool { return len(o.Cases) > 0 && !slices.Contains(o.Cases, c.Name) })
	for _, name := range o.Cases {
		if !slices.ContainsFunc(all, func(c Case) bool { return c.Name == name }) {
			errs = append(errs, fmt.Errorf("--case %s: there is no such case; --list shows all", name))
		}
	}
	return cases, errors.Join(errs...)
}

// openLog opens the log of the loops, which is kept where something failed.
func openLog() (*slog.Logger, func(passed bool) error, error) {
	f, err := os.CreateTemp("", "duly-eval-*.log")
	if err != nil {
		return nil, nil, fmt.Errorf("opening the log: %w", err)
	}
	log := app.NewLogger(f, slog.LevelInfo, true)
	return log, func(passed bool) error {
		err := f.Close()
		if passed {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return errors.Join(err, fmt.Errorf("(the log of all processes is %s)", filepath.Clean(f.Name())))
	}, nil
}

// task is one case on one adapter.
type task struct {
	site *site
	Case
}

// runCases tries every case on every site, so many at once; those that take long first. It
// returns a row each, case by case.
func runCases(ctx context.Context, out io.Writer, log *slog.Logger, sites []*site, cases []Case, atOnce int) []Row {
	var tasks []task
	for _, c := range cases {
		for _, s := range sites {
			tasks = append(tasks, task{s, c})
		}
	}
	order := make([]int, len(tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(tasks[b].patience, tasks[a].patience) })

	bar := progress.New(out, "evaluating")
	rows := make([]Row, len(tasks))
	var mu sync.Mutex
	ended, failed := 0, 0
	next := make(chan int)
	var running sync.WaitGroup
	for range min(atOnce, len(tasks)) {
		running.Go(func() {
			for i := range next {
				rows[i] = tasks[i].run(ctx, log)
				mu.Lock()
				ended++
				if rows[i].Verdict.fails() {
					failed++
				}
				bar.Show(float64(ended)/float64(len(tasks)), fmt.Sprintf("%d of %d cases, %d failed; last: %s on %s", ended, len(tasks), failed, rows[i].Case, rows[i].Adapter))
				mu.Unlock()
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	running.Wait()
	bar.Done(1, fmt.Sprintf("%d cases, %d failed", len(tasks), failed))
	return rows
}

// run tries one case on one adapter.
func (t task) run(ctx context.Context, log *slog.Logger) Row {
	row := Row{Case: t.Name, Title: t.Title, Adapter: t.site.adapter, Guarantees: t.Guarantees, Expect: t.Expect}
	if t.runs && t.site.databases == nil {
		row.Verdict, row.Note = NotApplicable, "the ledger in memory has no runs"
		return row
	}
	began := time.Now()
	bound, cancel := context.WithTimeout(ctx, cmp.Or(t.patience, defaultPatience))
	defer cancel()
	log = log.With("case", t.Name, "adapter", t.site.adapter)
	w, err := newWorld(bound, t.site, log, worldText, map[string]any{"Schedule": t.runs}, nil)
	if err == nil {
		t.try(bound, w, &row)
		err = w.end(context.WithoutCancel(ctx))
	}
	if err != nil {
		row.Problems = append(row.Problems, err.Error())
	}
	row.judge(t.breaks)
	row.Seconds = time.Since(began).Round(100 * time.Millisecond).Seconds()
	return row
}

// try brings the fault about, waits until every job has ended, and makes the account.
func (t task) try(ctx context.Context, w *world, row *Row) {
	verify, err := t.Case.run(ctx, w)
	if err == nil {
		err = w.settle(ctx)
	}
	if err != nil {
		row.Problems = append(row.Problems, err.Error())
	}
	// What holds at all times is looked at even where the case came to no end.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultPatience)
	defer cancel()
	a, err := w.account(last, t.breaks)
	if err != nil {
		a.problemf("making the account: %v", err)
	} else if verify != nil && len(row.Problems) == 0 {
		verify(a)
	}
	row.Injected, row.Counts = w.counted(&w.fired), a.counts
	row.Problems = append(row.Problems, a.problems...)
}

// encode prints a value as one line of JSON.
func encode(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }
