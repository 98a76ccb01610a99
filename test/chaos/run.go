package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"duly.dev/duly/internal/pause"
)

// outcome is what came of a run.
type outcome struct {
	plan       plan
	violations []violation
	incidents  []incident
	// counts are of requests by what is known of them, and of jobs by their states.
	requests map[answered]int
	states   map[string]int
	effects  int
	doubts   int
	byItself int // processes that ended though nobody ended them

	undisturbed, back float64
	backAfter         time.Duration
	alone, too        []time.Duration
	took              time.Duration
}

// line is a run in a line.
func (o outcome) line() string {
	return fmt.Sprintf("run %2d  seed %-4d %-5s %4d requests (%d unknown) %4d effects %3d faults  %3d doubts  back at %3.0f %% after %2.0f s  p99 %4.1f s  %d found  %3.0f s\n",
		o.plan.number, o.plan.seed, o.plan.bus, o.requests[ok]+o.requests[failed]+o.requests[unclear], o.requests[unclear], o.effects, len(o.incidents), o.doubts,
		100*o.share(), o.backAfter.Seconds(), percentile(o.alone, 99).Seconds(), len(o.violations), o.took.Seconds())
}

// share is the rate after the faults, of that before.
func (o outcome) share() float64 {
	if o.undisturbed == 0 {
		return 0
	}
	return o.back / o.undisturbed
}

// oneRun makes a run. The error is one of the machinery: what was found is in the outcome.
func oneRun(ctx context.Context, p plan, home string, programs programs) (o outcome, err error) {
	began := time.Now()
	o = outcome{plan: p, requests: map[answered]int{}, states: map[string]int{}}
	defer func() { o.took = time.Since(began) }()
	w, err := newWorld(ctx, p, home, programs)
	if err != nil {
		return o, fmt.Errorf("starting: %w", err)
	}
	defer w.close()
	d, err := newDriver(ctx, w)
	if err != nil {
		return o, fmt.Errorf("starting: %w", err)
	}
	defer d.close()
	if o.undisturbed, err = rate(ctx, w, d, "before", time.Minute); err != nil {
		return o, fmt.Errorf("measuring the undisturbed rate: %w", err)
	}
	if err := breakThings(ctx, w, d); err != nil {
		return o, fmt.Errorf("breaking things: %w", err)
	}
	if o.back, o.backAfter, err = back(ctx, w, d, o.undisturbed); err != nil {
		return o, fmt.Errorf("measuring the rate afterwards: %w", err)
	}
	if err := settled(ctx, w); err != nil {
		return o, fmt.Errorf("waiting for the end: %w", err)
	}
	return o, o.judge(ctx, w, d)
}

// breakThings works and breaks for as long as the plan says, and sees that everything runs
// again.
func breakThings(ctx context.Context, w *world, d *driver) error {
	var processes, servers []fault
	for _, f := range w.plan.faults {
		if f.aside {
			processes = append(processes, f)
		} else {
			servers = append(servers, f)
		}
	}
	bound, cancel := context.WithTimeout(ctx, w.plan.lasts)
	defer cancel()
	var broken [2]error
	var all sync.WaitGroup
	all.Go(func() { d.work(bound, w.plan.seed) })
	for i, faults := range [][]fault{processes, servers} {
		all.Go(func() {
			broken[i] = nemesis(bound, w, faults, rand.New(rand.NewPCG(w.plan.seed, uint64(1000+i))))
		})
	}
	all.Wait()
	errs := append(broken[:], w.receiver.start())
	for _, m := range w.members {
		m.signal(syscall.SIGCONT, false)
		errs = append(errs, m.start())
	}
	return errors.Join(errs...)
}

// patience bounds how long what is pending may take to end; what a broker that was wiped has
// lost is judged a minute after its next mark.
func (p plan) patience() time.Duration {
	if p.wipes {
		return 4 * time.Minute
	}
	return 150 * time.Second
}

// settled waits until nothing is pending, and nothing is unknown that can be asked about; or
// for as long as it is patient. The checker says what is left.
func settled(ctx context.Context, w *world) error {
	for end := time.Now().Add(w.plan.patience()); time.Now().Before(end); {
		var pending, open int
		err := w.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE j.state IN ('scheduled', 'ready', 'leased')),
				count(*) FILTER (WHERE j.state = 'unknown' AND k.name = $1)
			FROM duly.job j JOIN duly.kind k ON k.id = j.kind WHERE j.successor IS NULL`, askable).Scan(&pending, &open)
		if err == nil && pending == 0 && open == 0 {
			return nil
		}
		if !pause.For(ctx, 500*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// judge gathers the evidence, checks it, and fills in the outcome.
func (o *outcome) judge(ctx context.Context, w *world, d *driver) error {
	d.final(ctx)
	e, err := gather(ctx, w, d)
	if err != nil {
		return fmt.Errorf("gathering evidence: %w", err)
	}
	o.incidents = e.incidents
	for _, r := range e.requests {
		o.requests[r.As]++
	}
	for _, g := range e.generations {
		if g.Current {
			o.states[string(g.State)]++
		}
	}
	for _, j := range e.journal {
		if j.Acted {
			o.effects++
		}
	}
	for _, m := range w.members {
		m.mu.Lock()
		o.byItself += m.byItself
		m.mu.Unlock()
	}
	o.doubts = len(e.doubts)
	o.alone, o.too = e.recoveries()
	o.violations = e.check()
	if said, err := checkLedger(ctx, w); err != nil {
		o.violations = append(o.violations, violation{disagrees, fmt.Sprintf("duly check: %v: %s", err, last(said, 1500))})
	}
	if o.share() < recovered {
		o.violations = append(o.violations, violation{slow, fmt.Sprintf("%.0f jobs a second within %s after the faults, %.0f before them", o.back, recovery, o.undisturbed)})
	}
	slices.SortFunc(o.violations, func(a, b violation) int { return strings.Compare(a.String(), b.String()) })
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}

// final reads where every job stands.
func (d *driver) final(ctx context.Context) {
	d.mu.Lock()
	var kinds, keys []string
	for _, r := range d.keys {
		kinds, keys = append(kinds, r.Kind), append(keys, r.Key)
	}
	d.mu.Unlock()
	d.read(ctx, kinds, keys)
}

// checkLedger asks duly whether the ledger agrees with what it says happened.
func checkLedger(ctx context.Context, w *world) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	check := exec.CommandContext(ctx, w.programs.path(tool), "check", "--json")
	check.Env = []string{"DULY_DATABASE_URL=" + w.postgres.URL(), "HOME=" + w.home}
	return check.CombinedOutput()
}
