package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"duly.dev/duly/internal/failpoint"
	"duly.dev/duly/internal/machine"
)

// Cleaner cleans up behind the jobs of a kind.
type Cleaner interface {
	// Clean takes due cleanups, at most limit, runs them, and says what became of each.
	// Nobody else takes them before hold is over.
	Clean(ctx context.Context, limit int, hold time.Duration) ([]machine.CleanupOutcome, error)
}

// Cleanable is a kind that this process can clean up behind.
type Cleanable struct {
	Kind    string
	Cleaner Cleaner
	// Timeout is the longest that one cleanup may take, at most 30 s. Default 10 s.
	Timeout time.Duration
}

// JanitorOptions are what a Janitor needs. Watch and Kinds are required.
type JanitorOptions struct {
	Watch Steady
	Kinds []Cleanable
	// Log gets what an operator should know; nil discards it.
	Log *slog.Logger
	// Metrics takes the metrics; nil drops them. Those that are registered already are
	// shared.
	Metrics prometheus.Registerer
}

// Janitor removes what was generated for jobs that are over, once their kind's gate is
// open.
//
// Any number may run at once: what is due is taken in the ledger, by moving the instant at
// which it is tried next, so that one that dies costs a delay and a try. That something is
// done is written in one transaction with the statement that does it, and never taken
// back.
type Janitor struct {
	runner

	kinds    []*cleanable
	cleanups *prometheus.CounterVec
}

// cleanable is a Cleanable with how often in a row rounds of it had failures.
type cleanable struct {
	Cleanable

	failing int
}

const (
	defaultCleanTimeout = 10 * time.Second
	maxCleanTimeout     = 30 * time.Second

	// cleanEvery is how often a kind is looked at behind which nothing is due.
	cleanEvery = time.Second
	// cleanBatch is how many are taken at once.
	cleanBatch = 20
	// cleanGrace is what lies between the end of a cleanup and its result in the ledger,
	// and what a transaction of several has.
	cleanGrace = 20 * time.Second
)

// NewJanitor makes a Janitor; the error is one of its options, or of registering its
// metrics.
func NewJanitor(o JanitorOptions) (*Janitor, error) {
	j := &Janitor{}
	j.watch, j.log = o.Watch, cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	var errs []error
	for _, k := range o.Kinds {
		k.Timeout = cmp.Or(k.Timeout, defaultCleanTimeout)
		if k.Cleaner == nil || k.Timeout < 0 || k.Timeout > maxCleanTimeout {
			errs = append(errs, fmt.Errorf("kind %s: it needs a cleaner, and a timeout above 0 and at most %s", k.Kind, maxCleanTimeout))
		}
		j.kinds = append(j.kinds, &cleanable{Cleanable: k})
	}
	var err error
	j.cleanups, err = shared(o.Metrics, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "duly", Name: "cleanups_total",
		Help: "Cleanups that were tried, by what became of them: done, failed (tried again later), parked (waits for a person), stale (somebody else's, or retired by a redrive).",
	}, []string{"kind", "outcome"}))
	errs = append(errs, err)
	j.failures, err = shared(o.Metrics, newFailures())
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("making the janitor: %w", err)
	}
	return j, nil
}

// Run cleans up until ctx ends, and returns its error.
func (j *Janitor) Run(ctx context.Context) error {
	loops := make([]loop, len(j.kinds))
	for i, k := range j.kinds {
		loops[i] = loop{name: "cleanup", every: cleanEvery, round: func(ctx context.Context) (bool, error) { return j.round(ctx, k) }}
	}
	return j.all(ctx, loops)
}

func (j *Janitor) round(ctx context.Context, k *cleanable) (more bool, err error) {
	outcomes, err := k.Cleaner.Clean(ctx, cleanBatch, k.Timeout+cleanGrace)
	counted := make(map[machine.CleanupOutcome]int)
	for _, o := range outcomes {
		j.cleanups.WithLabelValues(k.Kind, string(o)).Inc()
		counted[o]++
	}
	j.tell(ctx, k, counted)
	return err == nil && counted[machine.CleanupDone] > 0, err
}

// tell logs failures: each that waits for a person now, of the others ever fewer.
func (j *Janitor) tell(ctx context.Context, k *cleanable, counted map[machine.CleanupOutcome]int) {
	failed, parked := counted[machine.CleanupFailed], counted[machine.CleanupParked]
	switch {
	case failed+parked > 0:
		k.failing++
	case counted[machine.CleanupDone] > 0:
		k.failing = 0
	}
	if parked > 0 || failed > 0 && k.failing&(k.failing-1) == 0 {
		j.log.WarnContext(ctx, "cleanups failed; dlq cleanup list says why", "kind", k.Kind, "tried_again_later", failed, "wait_for_a_person", parked)
	}
}

// Cleanups is where cleanups are taken that a function of the user's own does.
type Cleanups interface {
	// TakeCleanups takes some that are due.
	TakeCleanups(ctx context.Context, kind string, by machine.Means, limit int, hold time.Duration) (tasks []machine.CleanupTask, parked int, err error)
	// NoteCleanups takes what came of them.
	NoteCleanups(ctx context.Context, results []machine.CleanupResult) ([]machine.CleanupOutcome, error)
}

// CleanupFunc removes what was generated for one job. It may be called again for what it
// has removed.
type CleanupFunc func(ctx context.Context, t machine.CleanupTask) error

// FuncCleaner cleans up by a function.
type FuncCleaner struct {
	ledger  Cleanups
	kind    string
	timeout time.Duration
	clean   CleanupFunc
	places  chan struct{} // of those that run
}

// NewFuncCleaner makes the Cleaner of a function, which runs for at most the timeout.
func NewFuncCleaner(ledger Cleanups, kind string, timeout time.Duration, clean CleanupFunc) *FuncCleaner {
	return &FuncCleaner{ledger, kind, cmp.Or(timeout, defaultCleanTimeout), clean, make(chan struct{}, 8)}
}

// Clean takes as many as there are free places, and calls the function for all at once.
func (c *FuncCleaner) Clean(ctx context.Context, limit int, hold time.Duration) ([]machine.CleanupOutcome, error) {
	free := cap(c.places) - len(c.places)
	if free == 0 {
		return nil, fmt.Errorf("kind %s: none of the %d cleanups that were begun has returned, although their time is over", c.kind, cap(c.places))
	}
	tasks, parked, err := c.ledger.TakeCleanups(ctx, c.kind, machine.MeansGo, min(limit, free), hold)
	outcomes := slices.Repeat([]machine.CleanupOutcome{machine.CleanupParked}, parked)
	if err != nil || len(tasks) == 0 {
		return outcomes, err
	}
	if err := failpoint.At(failpoint.CleanupTaken); err != nil {
		return outcomes, err
	}
	results := c.run(ctx, tasks)
	if err := failpoint.At(failpoint.CleanupRan); err != nil {
		return outcomes, err
	}
	// What came of them is brought even if this process is to stop.
	bringing, cancel := context.WithTimeout(context.WithoutCancel(ctx), askGrace)
	defer cancel()
	noted, err := c.ledger.NoteCleanups(bringing, results)
	return append(outcomes, noted...), err
}

// run calls the function for all tasks at once. What was cut short by the end of the
// process is left out: it comes again.
func (c *FuncCleaner) run(ctx context.Context, tasks []machine.CleanupTask) []machine.CleanupResult {
	ended := atOnce(ctx, c.timeout, c.places, tasks, c.clean, errors.New("it had not returned in time"), errors.New("the cleanup panicked"))
	var results []machine.CleanupResult
	for i, err := range ended {
		r := machine.CleanupResult{CleanupTask: tasks[i]}
		if err != nil && ctx.Err() != nil {
			continue
		}
		if err != nil {
			r.Error = cmp.Or(err.Error(), "the cleanup failed")
		}
		results = append(results, r)
	}
	return results
}
