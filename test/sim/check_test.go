package sim

import (
	"context"
	"maps"
	"slices"
	"strings"

	"duly.dev/duly/docs/model"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// check holds what the ledger has at the end against what it was asked for, and each story
// against the rules.
func (w *world) check() {
	ctx := context.Background()
	for _, name := range slices.Sorted(maps.Keys(w.accepted)) {
		if _, known := w.history.jobs[name]; !known {
			w.breaksf("G2", "%s was accepted, and the ledger has no such job", name)
		}
	}
	tally, err := w.ledger.Tally(ctx)
	if err != nil {
		w.breaksf("G2", "the jobs cannot be counted: %v", err)
	}
	n := 0
	for _, of := range tally {
		n += of
	}
	if n != len(w.history.jobs) {
		w.breaksf("G10", "%d jobs were made, and %d are in a state", len(w.history.jobs), n)
	}
	for _, name := range slices.Sorted(maps.Keys(w.history.jobs)) {
		w.checkJob(name)
	}
	for _, g := range slices.SortedFunc(maps.Keys(w.history.steps), func(a, b generation) int {
		if a.job != b.job {
			return int(a.job - b.job)
		}
		return int(a.number - b.number)
	}) {
		for _, steps := range w.history.steps[g] {
			if err := model.Check(steps); err != nil {
				w.breaksf("model", "job %d.%d: %v", g.job, g.number, err)
			}
		}
	}
}

// checkJob holds the story of one job against the rules.
func (w *world) checkJob(name string) {
	kind, key, _ := strings.Cut(name, "/")
	story, err := w.ledger.Show(context.Background(), kind, key)
	g, ok := story.Current()
	if err != nil || !ok {
		w.breaksf("G2", "%s is not in the ledger any more: %v", name, err)
		return
	}
	if !over(g.Row) {
		w.breaksf("G2", "%s (job %d) has not come to an end: it is %s (emission %d, wakes at %s)", name, story.Job, stand(g.Row), g.Emission, g.WakeAt)
	}
	if len(w.plan.rates) == 0 && (g.State != job.Delivered || g.Attempt != 1) {
		w.breaksf("calm", "%s is %s after %d attempts, and nothing was wrong", name, stand(g.Row), g.Attempt)
	}
	h := machine.History{Redrives: story.Redrives}
	for _, g := range story.Generations {
		h.Rows = append(h.Rows, g.Row)
		w.checkEnd(g)
	}
	for _, e := range story.Events {
		if e.Name == machine.Lease && e.To == job.Leased {
			h.Leases = append(h.Leases, e)
		} else {
			h.Events = append(h.Events, e)
		}
	}
	broken, _ := machine.Fold(h)
	for _, d := range broken {
		w.breaksf("G12", "%s", d)
	}
}

// checkEnd holds the end of a generation against what the receiver did.
func (w *world) checkEnd(g machine.Generation) {
	acts := w.history.acts[w.history.keys[generation{g.Job, g.Generation}]]
	switch {
	case g.State == job.Delivered && acts != 1:
		w.breaksf("G1", "job %d.%d is delivered, and has happened %d times", g.Job, g.Generation, acts)
	case (g.State == job.Quarantined || g.State == job.Cancelled) && acts != 0:
		w.breaksf("G8", "job %d.%d is %s, and has happened %d times", g.Job, g.Generation, g.State, acts)
	}
}
