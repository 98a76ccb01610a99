package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// verdict is what became of a mutant. The set is closed.
type verdict string

const (
	caught   verdict = "caught"
	survived verdict = "survived"
	stale    verdict = "does not apply"
	broken   verdict = "does not build"
	unproved verdict = "its test did not run"
)

// result is a mutant and what became of it.
type result struct {
	mutant
	verdict verdict
	why     string // what the test, the compiler or the patch said
	took    time.Duration
}

// laboratory tries mutants of the module at root.
type laboratory struct {
	root string
	// atOnce is how many are tried at the same time.
	atOnce int
	out    io.Writer
}

// baseline runs every test that the mutants name without any patch, a package at a time.
// The error names those that do not pass: they could catch nothing.
func (l laboratory) baseline(ctx context.Context, mutants []mutant) error {
	tests := map[string][]string{}
	for _, m := range mutants {
		for _, p := range m.proofs {
			if !slices.Contains(tests[p.folder], p.test) {
				tests[p.folder] = append(tests[p.folder], p.test)
			}
		}
	}
	var mu sync.Mutex
	var errs []error
	err := l.each(len(tests), func(i int) error {
		folder := sorted(tests)[i]
		began := time.Now()
		got, err := goTest(ctx, l.root, folder, tests[folder], "")
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(l.out, "without a patch: %-32s %3d tests %6.1f s\n", folder, len(tests[folder]), time.Since(began).Seconds())
		if got.broken != "" {
			errs = append(errs, fmt.Errorf("%s does not build: %s", folder, got.broken))
			return nil
		}
		for _, name := range tests[folder] {
			switch got.fates[name] {
			case passed:
			case failed:
				errs = append(errs, fmt.Errorf("%s %s fails without any patch: %s", folder, name, got.complaint()))
			case neverRan:
				errs = append(errs, fmt.Errorf("%s %s: there is no such test", folder, name))
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// try tries every mutant and tells of each when it is known.
func (l laboratory) try(ctx context.Context, mutants []mutant) ([]result, error) {
	folder, err := os.MkdirTemp("", "duly-mutants-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	results := make([]result, len(mutants))
	var mu sync.Mutex
	err = l.each(len(mutants), func(i int) error {
		r, err := l.one(ctx, mutants[i], filepath.Join(folder, mutants[i].name))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		results[i] = r
		fmt.Fprintf(l.out, "%-36s %-4s %-22s %6.1f s  %s\n", r.name, r.guarantee, r.verdict, r.took.Seconds(), shortened(r.why))
		return nil
	})
	return results, err
}

// one tries a mutant. The error is one of the laboratory.
func (l laboratory) one(ctx context.Context, m mutant, folder string) (result, error) {
	began := time.Now()
	r := result{mutant: m, verdict: caught}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return r, err
	}
	overlay, err := m.weaken(ctx, l.root, folder)
	if errors.Is(err, errStale) {
		r.verdict, r.why = stale, err.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	for _, p := range m.proofs {
		got, err := goTest(ctx, l.root, p.folder, []string{p.test}, overlay)
		if err != nil {
			return r, fmt.Errorf("%s: %w", m.name, err)
		}
		if r.verdict, r.why = judge(got, p.test); r.verdict != caught {
			r.why = strings.TrimSpace(p.test + ": " + r.why)
			break
		}
	}
	r.took = time.Since(began)
	return r, nil
}

// judge says whether a test has caught the mutant that it ran on.
func judge(got tested, test string) (verdict, string) {
	switch {
	case got.broken != "":
		return broken, got.broken
	case got.fates[test] == neverRan:
		return unproved, got.complaint()
	case got.fates[test] == passed:
		return survived, ""
	case got.unreadable() != "":
		return broken, got.unreadable()
	}
	return caught, got.complaint()
}

// each calls do for every index, as many at once as the laboratory may, and returns the
// first error.
func (l laboratory) each(n int, do func(i int) error) error {
	places := make(chan struct{}, max(1, l.atOnce))
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			errs[i] = do(i)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// shortened is a text that fits on a line.
func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const most = 120
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
