package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// options are what the command line says.
type options struct {
	root, folder, report string
	only                 *regexp.Regexp
	sample               int
	seed                 string
	atOnce               int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stopped just before
	}
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "the root of the module whose tests are asked")
	flags.StringVar(&o.folder, "mutants", "test/mutants", "the folder of the patches, from the root")
	flags.StringVar(&o.report, "report", "", "the page to write, where all mutants are tried")
	only := flags.String("only", "", "try those whose names match")
	flags.IntVar(&o.sample, "sample", 0, "try so many of each guarantee; 0 is all. That all apply is always checked")
	flags.StringVar(&o.seed, "seed", "1", "chooses the sample")
	flags.IntVar(&o.atOnce, "at-once", max(1, runtime.NumCPU()), "how many are tried at the same time")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if o.report != "" && (o.sample > 0 || *only != "") {
		return o, errors.New("-report: it is about all mutants; leave -only and -sample out")
	}
	o.root, err = filepath.Abs(o.root)
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	all, err := readMutants(filepath.Join(o.root, o.folder))
	if err != nil {
		return err
	}
	if err := applyAll(ctx, o.root, all); err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all {
		if o.only.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if o.sample > 0 {
		chosen = sample(chosen, o.sample, o.seed)
		fmt.Fprintf(out, "a sample of %d of %d mutants, by the seed %q\n", len(chosen), len(all), o.seed)
	}
	began := time.Now()
	l := laboratory{root: o.root, atOnce: o.atOnce, out: out}
	if err := l.baseline(ctx, chosen); err != nil {
		return err
	}
	results, err := l.try(ctx, chosen)
	if err != nil {
		return err
	}
	if o.report != "" {
		if err := os.WriteFile(o.report, []byte(markdown(results, revision(ctx, o.root))), 0o644); err != nil {
			return err
		}
	}
	return summary(results, time.Since(began), out)
}

// summary tells how many were caught; the error is about those that were not.
func summary(results []result, took time.Duration, out io.Writer) error {
	var left []string
	for _, r := range results {
		if r.verdict != caught {
			left = append(left, r.name+" ("+string(r.verdict)+")")
		}
	}
	fmt.Fprintf(out, "%d of %d mutants caught, in %.0f s\n", len(results)-len(left), len(results), took.Seconds())
	if len(left) > 0 {
		return errors.New("not caught: " + strings.Join(left, ", "))
	}
	return nil
}

// applyAll sees that every patch applies, which costs nothing.
func applyAll(ctx context.Context, root string, mutants []mutant) error {
	folder, err := os.MkdirTemp("", "duly-mutants-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	var errs []error
	for _, m := range mutants {
		if _, err := m.weaken(ctx, root, filepath.Join(folder, m.name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// revision names the state of the repository, "unknown" outside of one.
func revision(ctx context.Context, root string) string {
	git := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty")
	said, err := git.Output()
	if err != nil {
		return "unknown"
	}
	return string(bytes.TrimSpace(said))
}
