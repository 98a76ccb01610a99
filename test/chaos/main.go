package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	seed   uint64
	runs   int
	lasts  time.Duration
	atOnce int
	bus    string
	faults []string
	report string
	keep   string
}

func main() {
	if err := perform(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// perform is a run, or what this program is in one.
func perform(args []string) error {
	if len(args) > 0 {
		if child := children[args[0]]; child != nil {
			return child(args[1:])
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args, os.Stdout)
}

// children are what this program is when a run starts it: the parts that are to be killed.
var children = map[string]func(args []string) error{"receiver": receive, "broker": serveBroker}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "of the first run; each further one has the next")
	flags.IntVar(&o.runs, "runs", 10, "how many")
	flags.DurationVar(&o.lasts, "for", time.Minute, "how long things are broken in each")
	flags.IntVar(&o.atOnce, "at-once", 2, "how many runs go on at the same time")
	flags.StringVar(&o.bus, "bus", busBoth, "nats, kafka, or both: every fifth run is on Kafka then")
	faults := flags.String("faults", "", "break these alone, separated by commas")
	flags.StringVar(&o.report, "report", "", "the page to write")
	flags.StringVar(&o.keep, "keep", "", "a folder for what a run leaves that found something")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if !slices.Contains([]string{busNATS, busKafka, busBoth}, o.bus) || o.runs < 1 || o.atOnce < 1 || o.lasts < time.Second {
		return o, errors.New("chaos: at least one run of a second, on nats, kafka or both")
	}
	if *faults != "" {
		o.faults = strings.Split(*faults, ",")
	}
	for _, name := range o.faults {
		if !slices.ContainsFunc(allFaults, func(f fault) bool { return f.name == name }) {
			return o, fmt.Errorf("--faults %s: there is no such fault", name)
		}
	}
	return o, nil
}

// plan is what one run is told.
type plan struct {
	number int
	seed   uint64
	bus    string
	lasts  time.Duration
	faults []fault
	// wipes: the broker is wiped once, which makes what follows long: what it has lost is
	// judged after a minute.
	wipes bool
}

// plans are those of all runs.
func (o options) plans() []plan {
	all := make([]plan, o.runs)
	for i := range all {
		p := plan{number: i + 1, seed: o.seed + uint64(i), bus: o.bus, lasts: o.lasts, wipes: i%3 == 0}
		if o.bus == busBoth {
			p.bus = busNATS
			if i%5 == 4 {
				p.bus = busKafka
			}
		}
		for _, f := range allFaults {
			if f.fits(p) && (len(o.faults) == 0 || slices.Contains(o.faults, f.name)) {
				p.faults = append(p.faults, f)
			}
		}
		all[i] = p
	}
	return all
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "duly-chaos-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	began := time.Now()
	programs, err := build(ctx, filepath.Join(folder, "bin"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "built in %.0f s; %d runs from seed %d, %d at once\n", time.Since(began).Seconds(), o.runs, o.seed, o.atOnce)
	results, err := o.all(ctx, folder, programs, out)
	if err != nil {
		return err
	}
	if o.report != "" {
		if err := os.WriteFile(o.report, []byte(markdown(o, results)), 0o644); err != nil {
			return err
		}
	}
	return conclude(o, results, out)
}

// all makes every run, some at once.
func (o options) all(ctx context.Context, folder string, programs programs, out io.Writer) ([]outcome, error) {
	var mu sync.Mutex
	places := make(chan struct{}, o.atOnce)
	plans := o.plans()
	results, errs := make([]outcome, len(plans)), make([]error, len(plans))
	var running sync.WaitGroup
	for i, p := range plans {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			home := filepath.Join(folder, fmt.Sprintf("run-%d", p.number))
			results[i], errs[i] = oneRun(ctx, p, home, programs)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprint(out, results[i].line())
			if errs[i] != nil {
				errs[i] = fmt.Errorf("run %d (seed %d): %w", p.number, p.seed, errs[i])
				fmt.Fprintln(out, errs[i])
			}
			if o.keep != "" && (errs[i] != nil || len(results[i].violations) > 0) {
				kept := filepath.Join(o.keep, filepath.Base(home))
				_ = os.RemoveAll(kept)
				errs[i] = errors.Join(errs[i], os.CopyFS(kept, os.DirFS(filepath.Join(home, "logs"))))
			}
			_ = os.RemoveAll(home)
		})
	}
	running.Wait()
	return results, errors.Join(errs...)
}

// conclude is the error of all runs together: what they found, and which faults never
// struck.
func conclude(o options, results []outcome, out io.Writer) error {
	struck := strikes(results)
	var errs []error
	for _, f := range asked(o) {
		if struck[f] == 0 {
			errs = append(errs, fmt.Errorf("%s was asked for and never struck: what it would have found is not known", f))
		}
	}
	var alone, too []time.Duration
	for _, r := range results {
		for _, v := range r.violations {
			errs = append(errs, fmt.Errorf("run %d (seed %d): %s", r.plan.number, r.plan.seed, v))
		}
		alone, too = append(alone, r.alone...), append(too, r.too...)
	}
	errs = append(errs, inTime("a killed worker", alone, leaseTime+sooner), inTime("a worker that was killed with the schedulers", too, 2*leaseTime))
	if errors.Join(errs...) == nil {
		fmt.Fprintln(out, "nothing was lost, doubled, stale, stuck or unexplained")
	}
	return errors.Join(errs...)
}

// inTime is the error of jobs that did not move again soon enough.
func inTime(whose string, all []time.Duration, bound time.Duration) error {
	if p99 := percentile(all, 99); p99 > bound {
		return fmt.Errorf("%s: the jobs of %s moved again after %s at p99 (of %d), at most %s is promised", slow, whose, p99.Round(time.Millisecond), len(all), bound)
	}
	return nil
}

// asked are the faults of all plans.
func asked(o options) []string {
	var names []string
	for _, p := range o.plans() {
		for _, f := range p.faults {
			if !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	return names
}

// strikes counts how often each fault struck.
func strikes(results []outcome) map[string]int {
	struck := map[string]int{}
	for _, r := range results {
		for _, i := range r.incidents {
			if i.Struck {
				struck[i.Fault]++
			}
		}
	}
	return struck
}
