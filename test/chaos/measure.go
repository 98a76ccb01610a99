package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"duly.dev/duly/internal/pause"
	"duly.dev/duly/pkg/job"
)

// The targets.
const (
	// sooner bounds how soon a killed worker's jobs move again, behind the lease time.
	sooner = 5 * time.Second
	// recovered is the share of the undisturbed rate that the fleet must be back at within
	// recovery.
	recovered = 0.8
	recovery  = time.Minute
	// burst is how many jobs a rate is measured with.
	burst = 480
)

// recoveries are how long it took until leases of killed workers were ended, where nothing
// else was broken that they wait for. schedulersToo are those at whose time the schedulers
// were killed as well.
func (e evidence) recoveries() (alone, schedulersToo []time.Duration) {
	for _, i := range e.incidents {
		if !isKill(i.Fault) || !i.Struck || e.disturbed(i) {
			continue
		}
		for _, d := range e.doubts {
			o := e.workers[d.Worker]
			if d.Name != "lease_ended" || !strings.Contains(i.Target, o.name) || o.life.Ended.Sub(i.From).Abs() > 2*time.Second || d.At.Before(i.From) {
				continue
			}
			if took := d.At.Sub(i.From); i.Fault == "kill-schedulers" {
				schedulersToo = append(schedulersToo, took)
			} else {
				alone = append(alone, took)
			}
		}
	}
	return alone, schedulersToo
}

// disturbed reports whether something else was broken between a kill and the bound of its
// recovery that the sweep waits for.
func (e evidence) disturbed(kill incident) bool {
	until := kill.From.Add(2*leaseTime + sooner)
	return slices.ContainsFunc(e.incidents, func(i incident) bool {
		sweeps := ambiguousFor[i.Fault] && i.Fault != "kill-receiver" || strings.Contains(i.Target, scheduler)
		same := i.From.Equal(kill.From) && i.Fault == kill.Fault
		// Contact that was lost just before the kill begins anew.
		return sweeps && !same && i.From.Before(until) && (i.To.IsZero() || i.To.Add(leaseTime).After(kill.From))
	})
}

// percentile is the p-th hundredth of durations; 0 of none.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[min(len(all)*p/100, len(all)-1)]
}

// rate measures how fast a burst of jobs is delivered, by the receiver's journal, in jobs a
// second: over the middle of them, so that neither the first nor a straggler counts.
func rate(ctx context.Context, w *world, d *driver, name string, patience time.Duration) (float64, error) {
	specs := make([]job.Spec, burst)
	for i := range specs {
		specs[i] = d.spec(deduped, fmt.Sprintf("%s%s-%d", rateMark, name, i), nil)
	}
	end := time.Now().Add(patience)
	for d.enqueue(ctx, specs) != ok {
		if time.Now().After(end) || !pause.For(ctx, 500*time.Millisecond) {
			return 0, errors.New("the jobs of a rate could not be enqueued")
		}
	}
	for {
		times, err := arrivals(w, rateMark+name+"-")
		if err != nil {
			return 0, err
		}
		if from, to := burst/5, burst*4/5; len(times) > to {
			return float64(to-from) / times[to].Sub(times[from]).Seconds(), nil
		}
		if time.Now().After(end) {
			return 0, nil
		}
		if !pause.For(ctx, 250*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
}

// arrivals are when effects happened whose keys have a text, in order.
func arrivals(w *world, text string) ([]time.Time, error) {
	journal, err := readJournal(w.journal())
	if err != nil {
		return nil, err
	}
	var times []time.Time
	for _, e := range journal {
		if e.Acted && strings.Contains(e.Key, text) {
			times = append(times, e.At)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}

// back is the best rate within the time of recovery after the faults, and how long after
// them it was reached.
func back(ctx context.Context, w *world, d *driver, undisturbed float64) (best float64, after time.Duration, err error) {
	began := time.Now()
	for n := 0; time.Since(began) < recovery; n++ {
		got, err := rate(ctx, w, d, fmt.Sprintf("after%d", n), recovery-time.Since(began))
		if err != nil {
			return best, after, err
		}
		if got > best {
			best, after = got, time.Since(began)
		}
		if best >= recovered*undisturbed {
			break
		}
	}
	return best, after, nil
}
