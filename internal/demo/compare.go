package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"duly.dev/duly/internal/channel/smtpchan"
	"duly.dev/duly/internal/importer"
	"duly.dev/duly/pkg/job"
)

// claim is what the ledger says about a job.
type claim struct {
	Kind, Key, Channel string
	// Generation is the current one; there are as many as its number.
	Generation  int32
	State       job.State
	Reason      job.Reason
	Destination string
}

func (c claim) name() string { return c.Kind + "/" + c.Key }

// effectKeys are the keys by which a receiver may have seen the job, the current
// generation's last.
func (c claim) effectKeys() []string {
	keys := make([]string, 0, c.Generation)
	for g := int32(1); g <= c.Generation; g++ {
		key := job.WireEffectKey(c.Kind, c.Key, g, c.Channel)
		if c.Channel == smtpchan.Name {
			key = smtpchan.Identity(key)
		}
		keys = append(keys, key)
	}
	return keys
}

// comparison is the ledger against the receivers. The two agree where problems is
// empty.
type comparison struct {
	groups []group
	states map[job.State]int
	// effects is how many the receivers saw.
	effects int
	// duplicates is how many of them were more than one for a job.
	duplicates int
	// lost is how many jobs were accepted and are not in the ledger, are not at an end,
	// or are delivered without an effect.
	lost int
	// problems are what does not agree, in words.
	problems []string
}

// group is what became of the jobs that one behaviour was planned for.
type group struct {
	receiver string
	behaviour
	order, jobs int
	states      map[job.State]int
	effects     int
	duplicates  int
}

// compare holds what the ledger claims against what the receivers saw, job by job.
// rows is how many rows the file has by another count than the import's.
func compare(rows int, counts importer.Counts, claims []claim, seen map[string]int) comparison {
	c := comparison{states: make(map[job.State]int)}
	c.rows(rows, counts, len(claims))
	left := maps.Clone(seen)
	byPlan := make(map[int]*group)
	for _, one := range claims {
		c.states[one.State]++
		receiver, plan, order := planned(one.Destination)
		if byPlan[order] == nil {
			byPlan[order] = &group{receiver: receiver, behaviour: plan, order: order, states: make(map[job.State]int)}
		}
		total, current := 0, 0
		for _, key := range one.effectKeys() {
			current = left[key]
			total += current
			delete(left, key)
		}
		c.effects += total
		c.job(one, plan, total, current)
		byPlan[order].add(one, total)
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		c.effects += left[key]
		c.problemf("a receiver saw the effect %s, of which the ledger knows nothing", key)
	}
	c.groups = slices.SortedFunc(values(byPlan), func(a, b group) int { return cmp.Compare(a.order, b.order) })
	return c
}

func values(groups map[int]*group) func(func(group) bool) {
	return func(yield func(group) bool) {
		for _, g := range groups {
			if !yield(*g) {
				return
			}
		}
	}
}

func (c *comparison) problemf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// rows checks that every row is accounted for.
func (c *comparison) rows(rows int, counts importer.Counts, jobs int) {
	if rows != counts.Rows {
		c.problemf("the file has %d rows, the import read %d", rows, counts.Rows)
	}
	if !counts.Balanced() {
		c.problemf("%d rows are not %d refused, %d of a known key and %d jobs", counts.Rows, counts.Refused, counts.SameKey, counts.Jobs)
	}
	if jobs < counts.Jobs {
		c.lost += counts.Jobs - jobs
	}
	if jobs != counts.Jobs {
		c.problemf("the import made %d jobs, the ledger has %d", counts.Jobs, jobs)
	}
}

// job checks one job: total effects were seen, current of them of its newest
// generation.
func (c *comparison) job(one claim, plan behaviour, total, current int) {
	if total > 1 {
		c.duplicates += total - 1
		c.problemf("%s had %d effects", one.name(), total)
	}
	switch {
	case one.State.Pending():
		c.lost++
		c.problemf("%s is still %s", one.name(), one.State)
		return
	case one.State == job.Delivered && current == 0:
		c.lost++
		c.problemf("%s is delivered, but no receiver saw it", one.name())
	case (one.State == job.Quarantined || one.State == job.Cancelled) && total > 0:
		c.problemf("%s is %s, but a receiver saw it", one.name(), one.State)
	case one.State == job.Unknown && total == 0:
		c.problemf("%s is unknown, and the receiver that was to act did not see it", one.name())
	}
	if one.State != plan.ends {
		c.problemf("%s is %s %s, but was planned to end %s (its receiver %s)", one.name(), one.State, one.Reason, plan.ends, plan.does)
	}
}

func (g *group) add(one claim, effects int) {
	g.jobs++
	g.states[one.State]++
	g.effects += effects
	g.duplicates += max(0, effects-1)
}
