package eval

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"duly.dev/duly/internal/classify"
	"duly.dev/duly/internal/compose"
	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
)

// worker starts a worker, which performs all kinds.
func (w *world) worker(ctx context.Context) (*proc, error) {
	return w.start(ctx, "worker", func(_ context.Context, p *proc) (func(context.Context) error, error) {
		var kinds []execute.Kind
		for _, k := range w.kinds {
			kinds = append(kinds, execute.Kind{Kind: k, Performer: &performer{w.channels[k.Name], p}, Classifier: classify.Version})
		}
		var lanes []execute.Lane
		for _, l := range w.config.Lanes {
			lanes = append(lanes, execute.Lane{Name: l.Name, Pack: l.Pack})
		}
		c := w.config.Worker
		one, err := execute.New(execute.Options{
			Ledger: p.view, Heart: p.view, Bus: p.link, Kinds: kinds, Lanes: lanes, Label: "eval", Version: "eval",
			Slots: c.Slots, LeaseTime: c.LeaseTime, Heartbeat: c.Heartbeat, Drain: c.Drain, Log: w.log,
		})
		if err != nil {
			return nil, err
		}
		return one.Run, nil
	})
}

// markEvery and claim are shorter than in a fleet, so that nobody waits for long.
const (
	markEvery = 2 * time.Second
	claim     = 2 * time.Second
)

// dispatcher starts a dispatcher.
func (w *world) dispatcher(ctx context.Context) (*proc, error) {
	return w.start(ctx, "dispatcher", func(_ context.Context, p *proc) (func(context.Context) error, error) {
		packs := w.config.Packs()
		one, err := dispatch.New(dispatch.Options{
			Ledger: p.view, Bus: p.link, Pack: func(lane string) int { return packs[lane] },
			Claim: claim, MarkEvery: markEvery, Log: w.log,
		})
		if err != nil {
			return nil, err
		}
		return one.Run, nil
	})
}

// scheduler starts a scheduler: promotion, sweeps, questions, cleanups and, where the world
// has a schedule, runs.
func (w *world) scheduler(ctx context.Context) (*proc, error) {
	return w.start(ctx, "scheduler", func(ctx context.Context, p *proc) (func(context.Context) error, error) {
		watch, err := contact.New(contact.Options{Ledger: p.view, Hold: w.config.Worker.LeaseTime, Log: w.log})
		if err != nil {
			return nil, err
		}
		promotion, err := schedule.New(schedule.Options{Ledger: p.view, Watch: watch, Log: w.log})
		if err != nil {
			return nil, err
		}
		sweeper, err := sweep.New(sweep.Options{Ledger: p.view, Watch: watch, LeaseTime: w.config.Worker.LeaseTime, Log: w.log})
		if err != nil {
			return nil, err
		}
		loops := []func(context.Context) error{promotion.Run, sweeper.Run}
		for _, add := range []func(context.Context, *proc, *contact.Watch) (func(context.Context) error, error){w.asker, w.janitor, w.runs} {
			loop, err := add(ctx, p, watch)
			if err != nil {
				return nil, err
			}
			if loop != nil {
				loops = append(loops, loop)
			}
		}
		return func(ctx context.Context) error {
			var all errgroup.Group
			for _, loop := range loops {
				all.Go(func() error { return loop(ctx) })
			}
			return all.Wait()
		}, nil
	})
}

// asker asks receivers that can be asked; nil where none can.
func (w *world) asker(_ context.Context, p *proc, watch *contact.Watch) (func(context.Context) error, error) {
	var kinds []sweep.Askable
	for name, lookup := range w.lookups {
		k, _ := w.config.Kind(name)
		kinds = append(kinds, sweep.Askable{Kind: name, Means: k.Promises.Lookup, Lookup: lookup, Timeout: k.Lookup.Timeout})
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	one, err := sweep.NewAsker(sweep.AskerOptions{Ledger: p.view, Watch: watch, Kinds: kinds, Log: w.log})
	if err != nil {
		return nil, err
	}
	return one.Run, nil
}

// janitor cleans up behind the kind cleaned: by its statement on PostgreSQL, by a function
// in memory; nil where there is no such kind.
func (w *world) janitor(ctx context.Context, p *proc, watch *contact.Watch) (func(context.Context) error, error) {
	k, ok := w.config.Kind(cleaned)
	if !ok {
		return nil, nil
	}
	var by sweep.Cleaner
	if p.ledger == nil {
		by = sweep.NewFuncCleaner(p.view, cleaned, k.Gate.Timeout, func(_ context.Context, t machine.CleanupTask) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.removals[t.Key]++
			return nil
		})
	} else {
		opened, err := p.ledger.OpenCleaner(ctx, ledger.CleanerOptions{Kind: cleaned, Statement: k.Gate.Statement, Timeout: k.Gate.Timeout})
		if err != nil {
			return nil, err
		}
		p.closing(opened.Close)
		by = &cleaner{opened, p}
	}
	one, err := sweep.NewJanitor(sweep.JanitorOptions{Watch: watch, Log: w.log, Kinds: []sweep.Cleanable{{Kind: cleaned, Cleaner: by, Timeout: k.Gate.Timeout}}})
	if err != nil {
		return nil, err
	}
	return one.Run, nil
}

// runs makes runs of the world's schedule; nil where it has none.
func (w *world) runs(_ context.Context, p *proc, watch *contact.Watch) (func(context.Context) error, error) {
	schedules, err := compose.Schedules(w.config)
	if err != nil || len(schedules) == 0 {
		return nil, err
	}
	one, err := schedule.NewRuns(schedule.RunOptions{
		Ledger: &runs{p.ledger, p}, Watch: watch, Schedules: schedules, Rest: time.Second, Log: w.log,
	})
	if err != nil {
		return nil, err
	}
	return one.Run, nil
}

// fleet starts one of each, in the order in which work flows.
func (w *world) fleet(ctx context.Context, workers int) (all []*proc, err error) {
	starts := []func(context.Context) (*proc, error){w.scheduler, w.dispatcher}
	for range workers {
		starts = append(starts, w.worker)
	}
	for _, start := range starts {
		p, err := start(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
