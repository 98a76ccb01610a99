package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"duly.dev/duly/internal/app"
)

// stage is what every demonstration plays on.
type stage struct {
	Options
	began         time.Time
	out, progress io.Writer
}

func newStage(p *app.Process, o Options) stage {
	t := stage{Options: o, began: time.Now(), out: p.Stdout, progress: p.Stderr}
	if o.JSON {
		t.out = p.Stderr
	}
	if t.Patience <= 0 {
		t.Patience = 2 * time.Minute
	}
	return t
}

// play is what is done on servers and loops that run.
type play func(ctx context.Context) error

// run makes the folder, runs what setup starts and the play that it returns, and prints the
// result, where there is one, be it a bad one.
func (t *stage) run(ctx context.Context, p *app.Process, setup func(context.Context, *app.Service) (play, error), result func() any) error {
	given := t.Dir
	if err := t.makeDir(); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(t.Dir, "duly.log"))
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	quietly := &app.Process{Name: p.Name, Version: p.Version, Stdout: p.Stdout, Stderr: p.Stderr, Log: app.NewLogger(log, 0, true)}
	err = errors.Join(t.serve(ctx, quietly, setup), log.Close())
	if came := result(); t.JSON && came != nil {
		err = errors.Join(err, json.NewEncoder(p.Stdout).Encode(came))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w\n(logs and data are in %s)", err, t.Dir)
	}
	if given == "" {
		err = errors.Join(err, os.RemoveAll(t.Dir))
	}
	return err
}

// makeDir makes the folder, or checks that nothing is in it: the jobs of an earlier
// demonstration would be compared with receivers that never saw them.
func (t *stage) makeDir() (err error) {
	if t.Dir == "" {
		t.Dir, err = tempFolder("demo")
		return err
	}
	if t.Dir, err = filepath.Abs(t.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	entries, err := os.ReadDir(t.Dir)
	if err == nil && len(entries) > 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--data %s: it must be empty: a demonstration begins with an empty ledger (duly dev keeps one)", t.Dir))
	}
	return err
}

func (t *stage) path(name string) string { return filepath.Join(t.Dir, name) }

// serve runs what setup starts, and the play in it, to the end of the play.
func (t *stage) serve(ctx context.Context, p *app.Process, setup func(context.Context, *app.Service) (play, error)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var played error
	err := app.Serve(ctx, p, app.AdminSettings{AdminAddr: "127.0.0.1:0"}, func(ctx context.Context, s *app.Service) error {
		do, err := setup(ctx, s)
		if err != nil {
			return err
		}
		s.Group.Add("play", func(ctx context.Context) error {
			played = do(ctx)
			end()
			return nil
		})
		return nil
	})
	return errors.Join(played, err)
}

func (t *stage) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.progress, format+"\n", args...)
}
