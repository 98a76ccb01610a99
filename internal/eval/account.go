package eval

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"duly.dev/duly/internal/channel/httpchan"
	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// Counts are what an account came to.
type Counts struct {
	Jobs   int               `json:"jobs"`
	States map[job.State]int `json:"states"`
	// Sends are requests that receivers got, Effects what they did, Repeats the requests
	// that they answered from memory.
	Sends   int `json:"sends"`
	Effects int `json:"effects"`
	Repeats int `json:"repeats"`
	// Duplicates are effects beyond the first of an effect key or, unless a person forced
	// it, of a job.
	Duplicates int `json:"duplicates"`
	// Lost are jobs that were accepted and are nowhere, not at an end, or delivered without
	// an effect.
	Lost int `json:"lost"`
	// Outdated are requests under the key of a generation that had a successor.
	Outdated int `json:"outdated"`
	// Stale are references that came too late and were dropped.
	Stale int `json:"stale"`
}

// held is one job as the three witnesses tell of it.
type held struct {
	kind, key string
	story     machine.Story
	// seen is what receivers saw of each generation, by its number less one.
	seen []effect
}

func (h held) name() string { return h.kind + "/" + h.key }

// current is the current generation, and what was seen of it.
func (h held) current() (machine.Generation, effect) {
	g, _ := h.story.Current()
	if len(h.seen) == 0 {
		return g, effect{}
	}
	return g, h.seen[len(h.seen)-1]
}

// account is what producers were told, what the ledger says and what the receivers did,
// side by side, with everything that does not agree, in words.
type account struct {
	counts   Counts
	held     []held
	problems []string
}

func (a *account) problemf(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// account makes the account of a world whose jobs have all ended. broken names what the
// receivers were made to break; effects that happen twice are no violation there.
func (w *world) account(ctx context.Context, broken string) (*account, error) {
	a := &account{counts: Counts{States: make(map[job.State]int), Stale: w.counted(&w.stale)}}
	seen := w.receiver.effects()
	listed, err := w.listed(ctx)
	if err != nil {
		return a, err
	}
	for _, name := range listed {
		h, err := w.hold(ctx, name, seen)
		if err != nil {
			return a, err
		}
		a.held = append(a.held, h)
		a.judge(h, broken)
		a.outdated(h, w.redrivenAt(h.name()))
	}
	a.accepted(w, listed)
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		a.problemf("a receiver saw the effect %s, of which the ledger knows nothing", key)
	}
	return a, w.fold(ctx, a)
}

// jobName is a job's kind and key.
type jobName struct{ kind, key string }

// listed are all jobs of the ledger, as an operator's tool lists them.
func (w *world) listed(ctx context.Context) ([]jobName, error) {
	var all []jobName
	for _, state := range job.States() {
		request := machine.ListRequest{State: state, Limit: 500}
		for {
			page, err := w.store.List(ctx, request)
			if err != nil {
				return nil, err
			}
			for _, e := range page.Entries {
				all = append(all, jobName{e.Kind, e.Key})
			}
			if page.Next == (machine.ListPlace{}) {
				break
			}
			request.After = page.Next
		}
	}
	slices.SortFunc(all, func(a, b jobName) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key)) })
	return all, nil
}

// hold reads one job, and takes what was seen of it out of seen.
func (w *world) hold(ctx context.Context, name jobName, seen map[string]effect) (held, error) {
	h := held{kind: name.kind, key: name.key}
	var err error
	if h.story, err = w.store.Show(ctx, name.kind, name.key); err != nil {
		return h, err
	}
	for _, g := range h.story.Generations {
		key := job.WireEffectKey(name.kind, name.key, g.Generation, httpchan.Name)
		h.seen = append(h.seen, seen[key])
		delete(seen, key)
	}
	return h, nil
}

// judge checks one job: what the state says is what the receivers saw.
func (a *account) judge(h held, broken string) {
	g, now := h.current()
	a.counts.Jobs++
	a.counts.States[g.State]++
	total := 0
	for i, e := range h.seen {
		a.counts.Sends, a.counts.Repeats = a.counts.Sends+e.requests, a.counts.Repeats+e.repeats
		total += e.effects
		if e.effects > 1 && broken == "" {
			a.problemf("G1: %s generation %d had %d effects", h.name(), i+1, e.effects)
		}
	}
	a.counts.Effects += total
	if total > 1 {
		a.counts.Duplicates += total - 1
		if now.effects == 1 && broken == "" {
			a.problemf("G1: %s had %d effects over its generations", h.name(), total)
		}
	}
	switch g.State {
	case job.Delivered:
		if now.effects == 0 {
			a.counts.Lost++
			a.problemf("G2: %s is delivered, and no receiver saw it", h.name())
		}
	case job.Quarantined, job.Cancelled:
		if total > 0 {
			a.problemf("G8: %s is %s, and a receiver acted", h.name(), g.State)
		}
	case job.Unknown:
		if g.Attempt == 0 {
			a.problemf("G8: %s is unknown, and nothing was tried", h.name())
		}
	case job.Scheduled, job.Ready, job.Leased:
		a.counts.Lost++
		a.problemf("G2: %s is still %s", h.name(), g.State)
	}
}

// outdated counts requests of generations that came after the answer to a redrive.
func (a *account) outdated(h held, redriven time.Time) {
	if redriven.IsZero() {
		return
	}
	for i, e := range h.seen[:max(0, len(h.seen)-1)] {
		if e.last.After(redriven) {
			a.counts.Outdated++
			a.problemf("G6: %s was sent for generation %d after that had been redriven", h.name(), i+1)
		}
	}
}

// accepted checks that what was acknowledged to producers is there.
func (a *account) accepted(w *world, listed []jobName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.accepted {
		if !slices.Contains(listed, jobName{s.Kind, s.Key}) {
			a.counts.Lost++
			a.problemf("G2: %s/%s was accepted and is not in the ledger", s.Kind, s.Key)
		}
	}
}

// fold folds what happened through the machine, as `duly check` does, and adds where the
// ledger does not agree with itself.
func (w *world) fold(ctx context.Context, a *account) error {
	if w.postgres != nil {
		_, err := w.postgres.Check(ctx, ledger.CheckRequest{}, func(d machine.Disagreement) error {
			a.problemf("G12: %s", d)
			return nil
		})
		return err
	}
	for _, h := range a.held {
		history := machine.History{Redrives: h.story.Redrives}
		for _, g := range h.story.Generations {
			history.Rows = append(history.Rows, g.Row)
		}
		for _, e := range h.story.Events {
			if e.Name == machine.Lease && e.To == job.Leased {
				history.Leases = append(history.Leases, e)
				continue
			}
			history.Events = append(history.Events, e)
		}
		broken, _ := machine.Fold(history)
		for _, d := range broken {
			a.problemf("G12: %s: %s", h.name(), d)
		}
	}
	return nil
}

func (w *world) redrivenAt(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.redriven[name]
}

// expectation is how jobs must end; -1 is any number.
type expectation struct {
	state    job.State
	attempts int
	sends    int
}

// anyNumber is a count that the case says nothing about.
const anyNumber = -1

// expect checks the jobs of a kind whose keys the function picks; nil picks all.
func (a *account) expect(kind string, e expectation, picks func(key string) bool) {
	found := 0
	for _, h := range a.held {
		if h.kind != kind || picks != nil && !picks(h.key) {
			continue
		}
		found++
		g, seen := h.current()
		if g.State != e.state {
			a.problemf("%s is %s %s, and must be %s", h.name(), g.State, g.Reason, e.state)
		}
		if e.attempts != anyNumber && int(g.Attempt) != e.attempts {
			a.problemf("%s has had %d attempts, and must have had %d", h.name(), g.Attempt, e.attempts)
		}
		if e.sends != anyNumber && seen.requests != e.sends {
			a.problemf("%s was sent %d times, and must have been %d times", h.name(), seen.requests, e.sends)
		}
	}
	if found == 0 {
		a.problemf("there is no job of kind %s to look at", kind)
	}
}
