package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// perRun is how many recipients world.yaml selects.
const perRun = 5

// errEnough keeps the schedule from firing on, so that a case comes to an end.
var errEnough = errors.New("no more runs")

func twoSchedulers(ctx context.Context, w *world) (verify, error) {
	var mu sync.Mutex
	enough := false
	w.on(beforeFire, func(moment) error {
		mu.Lock()
		defer mu.Unlock()
		if enough {
			return errEnough
		}
		return nil
	})
	w.on(beforeFire, w.meeting(2, 2*time.Second))
	if _, err := w.fleet(ctx, 1); err != nil {
		return nil, err
	}
	if _, err := w.scheduler(ctx); err != nil {
		return nil, err
	}
	if err := w.awaitFrozen(ctx, 2); err != nil {
		return nil, err
	}
	mu.Lock()
	enough = true
	mu.Unlock()
	w.rest(time.Second) // a decision may be on its way
	return w.verifyRuns(ctx), w.awaitFrozen(ctx, 2)
}

func crashInFreeze(ctx context.Context, w *world) (verify, error) {
	var mu sync.Mutex
	killed := false
	w.on(freezing, func(m moment) error {
		mu.Lock()
		defer mu.Unlock()
		if !killed {
			killed = true
			w.fire(1)
			m.proc.kill()
		}
		return nil
	})
	w.on(beforeFire, func(moment) error {
		mu.Lock()
		defer mu.Unlock()
		if killed {
			return errEnough
		}
		return nil
	})
	fleet, err := w.fleet(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := w.awaitThat(ctx, "the scheduler has died", fleet[0].dead); err != nil {
		return nil, err
	}
	tally, err := w.store.Tally(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := w.scheduler(ctx); err != nil {
		return nil, err
	}
	err = w.awaitFrozen(ctx, 1)
	verify := w.verifyRuns(ctx)
	return func(a *account) {
		if left := statesText(tally); left != "" {
			a.problemf("G10: the scheduler that died has left %s", left)
		}
		verify(a)
	}, err
}

// meeting holds processes until n of them are there, for no longer than d, and counts a
// fault each time that they are.
func (w *world) meeting(n int, d time.Duration) hook {
	var mu sync.Mutex
	there := make(map[*proc]bool)
	all := make(chan struct{})
	return func(m moment) error {
		mu.Lock()
		there[m.proc] = true
		met := all
		if len(there) == n {
			w.fire(1)
			close(all)
			there, all = make(map[*proc]bool), make(chan struct{})
		}
		mu.Unlock()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-met:
		case <-timer.C:
		case <-m.proc.living.Done():
		case <-w.over:
		}
		return nil
	}
}

// awaitFrozen waits until n runs are frozen and none is open.
func (w *world) awaitFrozen(ctx context.Context, n int) error {
	return w.await(ctx, fmt.Sprintf("%d runs are frozen", n), func() (bool, error) {
		all, err := w.postgres.Runs(ctx, machine.RunFilter{})
		frozen := 0
		for _, r := range all {
			if r.State == machine.RunFrozen {
				frozen++
			}
		}
		return frozen >= n && frozen == len(all), err
	})
}

// verifyRuns checks the runs: one a period, made of one selection, each member once.
func (w *world) verifyRuns(ctx context.Context) verify {
	return func(a *account) {
		all, err := w.postgres.Runs(ctx, machine.RunFilter{})
		if err != nil {
			a.problemf("reading the runs: %v", err)
		}
		periods := make(map[string]int)
		for _, r := range all {
			periods[r.Period]++
			counts, err := w.postgres.RunCounts(ctx, r.ID)
			if err != nil {
				a.problemf("reading the members of run %s: %v", r.Period, err)
			}
			members := int64(0)
			for _, n := range counts {
				members += n
			}
			if r.Selected != perRun || r.Refused != 0 || members != r.Expected() {
				a.problemf("G10: run %s has selected %d and refused %d, and has %d members; %d must be selected", r.Period, r.Selected, r.Refused, members, perRun)
			}
		}
		for period, n := range periods {
			if n != 1 {
				a.problemf("G10: period %s has %d runs", period, n)
			}
		}
		if a.counts.Jobs != len(all)*perRun {
			a.problemf("G10: there are %d jobs of %d runs with %d members each", a.counts.Jobs, len(all), perRun)
		}
		a.expect(deduped, expectation{job.Delivered, 1, 1}, nil)
	}
}
