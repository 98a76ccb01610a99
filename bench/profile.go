package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
)

// profileCommand is what `go run . profile` takes.
type profileCommand struct {
	Jobs  int    `help:"How many jobs are inserted and worked at once." default:"1000000"`
	Out   string `help:"Folder for profile.json and the part of performance.md; by default that is printed." placeholder:"DIR"`
	Keep  string `help:"Keep the profile of Go in this file." placeholder:"FILE"`
	Quick bool   `help:"A small size, to see whether everything works; its figures mean nothing."`
}

// profileFigures is what the command found. Times are in microseconds a job.
type profileFigures struct {
	Facts facts  `json:"facts"`
	Lap   Sample `json:"lap"`
	// Go is by the part of the program, then by the kind of work.
	Go map[string]map[string]float64 `json:"go_us_per_job"`
	// Postgres is CPU time by the kind of process.
	Postgres   map[string]float64 `json:"postgres_us_per_job"`
	Statements []statement        `json:"statements"`
}

// quick makes every size small.
func (c *profileCommand) quick() {
	c.Jobs = 20_000
}

// Run profiles and reports.
func (c profileCommand) Run(ctx context.Context, p *app.Process) error {
	if c.Quick {
		c.quick()
	}
	f := profileFigures{}
	err := measured(ctx, p, preload(), &f.Facts, func(s *Stack) error {
		g, err := newGround(ctx, s, "profile", dulyBest)
		if err != nil {
			return err
		}
		g.hasty = c.Quick
		if err := g.open(ctx); err != nil {
			return err
		}
		return errors.Join(profileOf(ctx, g, c, &f), g.Close(ctx))
	})
	if err != nil {
		return err
	}
	return report(p, c.Out, part{"performance.md", "profile", f.markdown()}, f)
}

// profileOf works the jobs while everything is watched.
func profileOf(ctx context.Context, g *ground, c profileCommand, f *profileFigures) error {
	file := cmp.Or(c.Keep, filepath.Join(g.stack.Dir, "cpu.pprof"))
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	watch, err := watchStatements(ctx, g.stack, g.database)
	if err != nil {
		return err
	}
	var before, after map[string]time.Duration
	f.Lap, err = g.take(ctx, "both", c.Jobs, func(ctx context.Context, m *Meter) error {
		done, err := g.ready(ctx, g.config)
		if err != nil {
			return err
		}
		if before, err = g.stack.byProcess(); err != nil {
			return err
		}
		if err := errors.Join(pprof.StartCPUProfile(out), m.Begin(ctx), g.insert(ctx, c.Jobs)); err != nil {
			return err
		}
		if err := errors.Join(g.running.wait(ctx, done, c.Jobs), m.Done(ctx)); err != nil {
			return err
		}
		pprof.StopCPUProfile()
		after, err = g.stack.byProcess()
		return err
	})
	statements, stopped := watch.stop(ctx)
	if err := errors.Join(err, stopped, out.Close()); err != nil {
		return err
	}
	traces, err := readProfile(ctx, file)
	if err != nil {
		return err
	}
	f.Statements = statements
	f.Go = sortOut(traces, c.Jobs)
	f.Postgres = make(map[string]float64)
	for kind, d := range after {
		f.Postgres[kind] = micros(d-before[kind], c.Jobs)
	}
	return nil
}

// micros is a time a job, in microseconds.
func micros(d time.Duration, jobs int) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(jobs)
}

// sortOut adds traces up by part of the program and kind of work.
func sortOut(traces []trace, jobs int) map[string]map[string]float64 {
	sum := make(map[string]map[string]float64)
	for _, t := range traces {
		part := ofFrames(parts, slices.Backward(t.frames))
		kind := ofFrames(kinds, slices.All(t.frames))
		if sum[part] == nil {
			sum[part] = make(map[string]float64)
		}
		sum[part][kind] += micros(t.took, jobs)
	}
	return sum
}

// byProcess is the CPU time of the server's processes by what they are.
func (s *Stack) byProcess() (map[string]time.Duration, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	sum := make(map[string]time.Duration)
	for _, p := range all {
		switch {
		case p.pid == s.postmaster:
			sum["ended meanwhile"] += p.reaped
		case p.parent == s.postmaster:
			line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "cmdline"))
			if err != nil {
				continue // it ended
			}
			sum[processKind(string(line))] += p.own
		}
	}
	return sum, nil
}

// processKind reads what a process of PostgreSQL is from its title, such as "postgres:
// duly: checkpointer".
func processKind(title string) string {
	words := strings.Fields(strings.Trim(title, "\x00 "))
	if len(words) > 2 && strings.HasSuffix(words[1], ":") { // the cluster's name
		words = words[1:]
	}
	if len(words) < 2 {
		return "others"
	}
	switch words[1] {
	case "checkpointer", "walwriter":
		return words[1]
	case "background":
		return "background writer"
	case "autovacuum":
		return "autovacuum"
	case "logical", "logger", "archiver", "startup":
		return "others"
	}
	return "connections"
}

// total adds a map up.
func total(of map[string]float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum
}

// byWorth are the keys of a map, the largest value first.
func byWorth(of map[string]float64) []string {
	var all []string
	for k, v := range of {
		if v >= 0.005 {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	return all
}

// markdown is the part of docs/performance.md.
func (f profileFigures) markdown() string {
	var b strings.Builder
	jobs := float64(f.Lap.Jobs)
	fmt.Fprintf(&b, "### Where the time goes\n\n%s\n%s jobs inserted and worked at once, %s a second, while everything is watched: %.1f µs of CPU a job in Duly and NATS, %.1f in PostgreSQL, of %.1f that %d cores have.\n",
		f.Facts.String(), grouped(int64(f.Lap.Jobs)), number(f.Lap.Rate()), clientMicros(f.Lap), serverMicros(f.Lap), 1e6*float64(f.Facts.Cores)/f.Lap.Rate(), f.Facts.Cores)
	f.goTable(&b)
	b.WriteString("\nPostgreSQL, µs of CPU a job by process:\n\n")
	t := newTable(true, "process", "µs a job")
	for _, kind := range byWorth(f.Postgres) {
		t.row(kind, number(f.Postgres[kind]))
	}
	t.row("**all**", number(total(f.Postgres)))
	b.WriteString(t.String())
	b.WriteString("\nPostgreSQL by statement (`pg_stat_statements`): time from begin to end of the statement, waiting for a processor and for the disk included; commits are not in it.\n\n")
	t = newTable(true, "statement", "calls in 1,000 jobs", "µs a job", "WAL B a job")
	for _, s := range f.Statements {
		if us := 1000 * s.Millis / jobs; us >= 0.02 {
			t.row("`"+s.Name+"`", number(1000*float64(s.Calls)/jobs), number(us), number(float64(s.WAL)/jobs))
		}
	}
	b.WriteString(t.String())
	return b.String()
}

// goTable is a table of the parts of the program by kind of work.
func (f profileFigures) goTable(w io.StringWriter) {
	byPart, byKind := make(map[string]float64), make(map[string]float64)
	for part, row := range f.Go {
		for kind, v := range row {
			byPart[part] += v
			byKind[kind] += v
		}
	}
	order := byWorth(byKind)
	_, _ = w.WriteString("\nGo, µs of CPU a job: who spends it (down), and on what (across). The profile samples a hundred times a second.\n\n")
	t := newTable(true, append([]string{"part", "all"}, order...)...)
	for _, part := range byWorth(byPart) {
		cells := []string{part, number(byPart[part])}
		for _, kind := range order {
			cells = append(cells, orNothing(f.Go[part][kind]))
		}
		t.row(cells...)
	}
	cells := []string{"**all**", number(total(byPart))}
	for _, kind := range order {
		cells = append(cells, number(byKind[kind]))
	}
	t.row(cells...)
	_, _ = w.WriteString(t.String())
}

// orNothing shows a figure that is too small to mean anything as nothing.
func orNothing(v float64) string {
	if v < 0.005 {
		return ""
	}
	return number(v)
}
