package schedule

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"duly.dev/duly/internal/calendar"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/pause"
)

// RunLedger is what the loops of runs ask of the ledger.
type RunLedger interface {
	// Fire asks decide about a schedule and carries that out; decided is false where
	// another decides at this moment.
	Fire(ctx context.Context, schedule, kind string, step time.Duration, decide func(machine.Moment) machine.Firing) (fired machine.Fired, decided bool, err error)
	// FreezeNext freezes the open run of the schedules whose turn it is; nil is none. A run
	// whose freeze failed is returned with the error.
	FreezeNext(ctx context.Context, schedules []string, plan func(machine.Run) (machine.Selection, error), rest func(tries int) time.Duration) (*machine.Run, error)
	// FinishRuns notes which runs have no pending member any more.
	FinishRuns(ctx context.Context) (int, error)
	// RetireRun removes the members of one run that has been over for longer than retention,
	// and keeps their counts.
	RetireRun(ctx context.Context, retention time.Duration) (bool, error)
	// RetireOccurrences removes some of what became of occurrences longer ago than retention.
	RetireOccurrences(ctx context.Context, retention time.Duration) (int, error)
	// RunFigures are what metrics show of runs that are not finished.
	RunFigures(ctx context.Context) ([]machine.RunFigures, error)
}

// RunOptions are what Runs need. Ledger, Watch and Schedules are required.
type RunOptions struct {
	Ledger    RunLedger
	Watch     Watch
	Schedules []Schedule
	// Rest is the longest pause between two decisions about a schedule: how late a run may
	// open where the clock was set, or another scheduler died in the middle of a decision.
	// Default 10 s. Where an occurrence comes before, the loop wakes for it.
	Rest time.Duration
	// Look is how often open runs are looked for. Default 1 s.
	Look time.Duration
	// Tend is how often runs are looked at for their end, and for the end of their retention.
	// Default 10 s.
	Tend time.Duration
	// Retention is how long the members of a run are kept after its end, and what became of
	// an occurrence; 0 keeps them.
	Retention time.Duration
	// Patience is the longest that one freeze may take. Default 30 min.
	Patience time.Duration
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them.
	Metrics prometheus.Registerer
	// Succeeded is called after every decision that was made. Optional.
	Succeeded func()
}

// Runs are the loops that make runs of schedules: one decides about each schedule when
// an occurrence comes, one freezes what was opened, one notes what is over, one removes
// what is kept no longer.
type Runs struct {
	options RunOptions
	metrics *runMetrics
	byName  map[string]*Schedule
	names   []string
}

// NewRuns makes the loops; the error is one of registering metrics.
func NewRuns(o RunOptions) (*Runs, error) {
	m, err := newRunMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	o.Rest = cmp.Or(o.Rest, 10*time.Second)
	o.Look = cmp.Or(o.Look, time.Second)
	o.Tend = cmp.Or(o.Tend, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 30*time.Minute)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Succeeded == nil {
		o.Succeeded = func() {}
	}
	r := &Runs{options: o, metrics: m, byName: make(map[string]*Schedule, len(o.Schedules))}
	for i := range o.Schedules {
		s := &o.Schedules[i]
		r.byName[s.Name] = s
		r.names = append(r.names, s.Name)
	}
	m.known(r.names)
	return r, nil
}

// Run decides, freezes and finishes until ctx ends, and returns its error. What goes wrong
// meanwhile is logged, counted and tried again.
func (r *Runs) Run(ctx context.Context) error {
	var loops errgroup.Group
	for _, name := range r.names {
		s := r.byName[name]
		loops.Go(func() error {
			r.repeat(ctx, "firing", func(ctx context.Context) (time.Duration, error) { return r.fire(ctx, s) })
			return nil
		})
	}
	for _, names := range r.bySource() {
		loops.Go(func() error {
			r.repeat(ctx, "freezing", func(ctx context.Context) (time.Duration, error) { return r.freeze(ctx, names) })
			return nil
		})
	}
	loops.Go(func() error { r.repeat(ctx, "finishing", r.finish); return nil })
	if r.options.Retention > 0 {
		loops.Go(func() error { r.repeat(ctx, "retiring", r.retire); return nil })
	}
	_ = loops.Wait() // none has an error
	return ctx.Err()
}

// bySource are the names of the schedules of each source: one that is away keeps nobody
// else's runs waiting.
func (r *Runs) bySource() map[string][]string {
	by := map[string][]string{}
	for _, name := range r.names {
		source := r.byName[name].Source
		by[source] = append(by[source], name)
	}
	return by
}

// repeat calls do until ctx ends, each time after the rest that it asks for.
func (r *Runs) repeat(ctx context.Context, doing string, do func(context.Context) (time.Duration, error)) {
	var wait pause.Backoff
	for ctx.Err() == nil {
		rest, err := do(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			rest = wait.Next()
			r.metrics.failures.WithLabelValues(doing).Inc()
			r.options.Log.WarnContext(ctx, "a loop of runs failed", "doing", doing, "error", err, "next_in", rest)
		default:
			wait.Reset()
		}
		pause.For(ctx, rest)
	}
}

// moveOn is how far a decision that does nothing moves before it is written. A schedule
// that is changed is decided by its new rule from there on, so it is no further back than
// an occurrence may be late.
const moveOn = time.Minute

// fire decides about one schedule and says when to decide again.
func (r *Runs) fire(ctx context.Context, s *Schedule) (time.Duration, error) {
	steady, err := r.options.Watch.Steady(ctx)
	if err != nil || !steady {
		return time.Second, err
	}
	if s.When.WhileRunning() != calendar.RunAllow {
		// Whether a run is over counts now, not when it was last looked at.
		if _, err := r.options.Ledger.FinishRuns(ctx); err != nil {
			return 0, err
		}
	}
	rest := r.options.Rest
	var firing machine.Firing
	fired, decided, err := r.options.Ledger.Fire(ctx, s.Name, s.Kind, moveOn, func(m machine.Moment) machine.Firing {
		f, d := s.decide(m)
		if wait, ever := d.Wait(m.Now); ever {
			rest = min(rest, wait)
		}
		if d.ClockWentBack {
			r.options.Log.WarnContext(ctx, "the ledger's clock went back; what it passes again is not fired twice", "schedule", s.Name, "was", m.Since, "is", m.Now)
		}
		firing = f
		return f
	})
	if err != nil {
		return 0, err
	}
	if !decided {
		return r.options.Look, nil
	}
	r.metrics.decided(s.Name, firing, fired)
	for _, run := range fired.Opened {
		r.options.Log.InfoContext(ctx, "a run was opened", "schedule", s.Name, "period", run.Period, "occurrence", run.At, "cause", run.Cause)
	}
	for _, o := range firing.Without {
		if o.Outcome == machine.OccurrenceMissed {
			r.options.Log.WarnContext(ctx, "occurrences were missed", "schedule", s.Name, "first", o.At, "last", o.Last, "count", o.Count, "why", o.Why)
		}
	}
	r.options.Succeeded()
	return max(rest, time.Millisecond), nil
}

// freeze freezes one run and says how long to rest.
func (r *Runs) freeze(ctx context.Context, names []string) (time.Duration, error) {
	bound, cancel := context.WithTimeout(ctx, r.options.Patience)
	defer cancel()
	began := time.Now()
	run, err := r.options.Ledger.FreezeNext(bound, names, func(run machine.Run) (machine.Selection, error) {
		return r.byName[run.Schedule].selection(run)
	}, freezeRest)
	switch {
	case run == nil:
		return r.options.Look, err
	case err != nil:
		r.metrics.failures.WithLabelValues("freezing").Inc()
		level := slog.LevelWarn
		if errors.Is(err, machine.ErrSelection) {
			level = slog.LevelError // nobody but a person repairs it
		}
		r.options.Log.Log(ctx, level, "a run could not be frozen; nothing of it was made", "schedule", run.Schedule, "period", run.Period, "error", err, "tries", run.Tries+1)
		return 0, nil // the run rests, others need not
	}
	r.metrics.frozen(*run, time.Since(began))
	r.options.Log.InfoContext(ctx, "a run was frozen", "schedule", run.Schedule, "period", run.Period,
		"selected", run.Selected, "refused", run.Refused, "expected", run.Expected(), "linked", run.Linked, "took", time.Since(began))
	return 0, nil
}

// freezeRest is how long a run rests after so many freezes that failed: 1 s, doubling to
// 5 min.
func freezeRest(tries int) time.Duration {
	return min(5*time.Minute, time.Second<<min(max(tries-1, 0), 10))
}

// finish notes which runs are over, and shows how all do, which alerts watch: whatever
// becomes of the first.
func (r *Runs) finish(ctx context.Context) (time.Duration, error) {
	n, err := r.options.Ledger.FinishRuns(ctx)
	if n > 0 {
		r.options.Log.InfoContext(ctx, "runs are over: no member is pending", "runs", n)
	}
	figures, failed := r.options.Ledger.RunFigures(ctx)
	if failed == nil {
		r.metrics.show(r.names, figures)
	}
	return r.options.Tend, errors.Join(err, failed)
}

// retire removes what is kept no longer, one run after the other, and then occurrences. It
// goes by the ledger's clock, and does nothing while that is not to be trusted.
func (r *Runs) retire(ctx context.Context) (time.Duration, error) {
	steady, err := r.options.Watch.Steady(ctx)
	if err != nil || !steady {
		return r.options.Tend, err
	}
	if found, err := r.options.Ledger.RetireRun(ctx, r.options.Retention); err != nil || found {
		return 0, err // perhaps there are more
	}
	if n, err := r.options.Ledger.RetireOccurrences(ctx, r.options.Retention); err != nil || n > 0 {
		return 0, err
	}
	return r.options.Tend, nil
}
