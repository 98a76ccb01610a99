package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"time"

	"duly.dev/duly/internal/app"
)

// facts are what figures depend on.
type facts struct {
	Commit   string    `json:"commit"`
	Postgres string    `json:"postgres"`
	Cores    int       `json:"cores"`
	Settings []Setting `json:"settings"`
	// Minutes is how long the whole run took.
	Minutes float64 `json:"minutes"`
}

// facts asks for them, and refuses a server that is not durable.
func (s *Stack) facts(ctx context.Context) (facts, error) {
	f := facts{Commit: commit(ctx), Postgres: s.postgres.Version(), Cores: runtime.NumCPU()}
	var err error
	if f.Settings, err = s.settings(ctx); err != nil {
		return f, err
	}
	return f, durable(f.Settings)
}

// String is a sentence about them.
func (f facts) String() string {
	var all []string
	for _, s := range f.Settings {
		if s.Value != "" {
			all = append(all, s.Name+" = "+s.Value)
		}
	}
	return fmt.Sprintf("Commit %s, PostgreSQL %s, %d cores for everything: server, broker and all processes; the run took %.0f minutes.\n%s.\n",
		f.Commit, f.Postgres, f.Cores, f.Minutes, strings.Join(all, ", "))
}

// onStack starts a server with the settings, for as long as do runs.
func onStack(ctx context.Context, p *app.Process, settings map[string]string, do func(*Stack) error) error {
	s, err := startStack(ctx, settings, func(text string) { fmt.Fprintln(p.Stderr, text) })
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.stop())
}

// measured runs do on a stack, as onStack, and notes what is to be known of the stack, and how
// long all of it took.
func measured(ctx context.Context, p *app.Process, settings map[string]string, known *facts, do func(*Stack) error) error {
	began := time.Now()
	err := onStack(ctx, p, settings, func(s *Stack) (err error) {
		if *known, err = s.facts(ctx); err != nil {
			return err
		}
		return do(s)
	})
	known.Minutes = time.Since(began).Minutes()
	return err
}

// merged are settings, the later ones counting.
func merged(all ...map[string]string) map[string]string {
	sum := make(map[string]string)
	for _, m := range all {
		maps.Copy(sum, m)
	}
	return sum
}

// report prints the part, or writes it and the figures into the folder.
func report(p *app.Process, folder string, text part, figures any) error {
	if folder == "" {
		_, err := fmt.Fprint(p.Stdout, text.text)
		return err
	}
	return publish(folder, text, figures)
}

// count writes a number as people do.
func count(n int) string {
	if n >= 1_000_000 && n%1_000_000 == 0 {
		return strconv.Itoa(n/1_000_000) + " million"
	}
	return grouped(int64(n))
}
