package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"duly.dev/duly/pkg/job"
)

// violation is something that must not be.
type violation struct{ what, about string }

func (v violation) String() string { return v.what + ": " + v.about }

// The violations, by what they break.
const (
	lost        = "lost"
	duplicate   = "duplicate"
	stale       = "stale"
	stuck       = "stuck"
	dishonest   = "dishonest"
	late        = "late"
	unexplained = "unexplained"
	disordered  = "not linearizable"
	disagrees   = "disagrees"
	slow        = "slow"
)

// check reads the evidence and returns all that must not be.
func (e evidence) check() []violation {
	var all []violation
	all = append(all, e.lost()...)
	all = append(all, e.effects()...)
	all = append(all, e.stale()...)
	all = append(all, e.late()...)
	all = append(all, e.unexplained()...)
	return append(all, e.disordered()...)
}

// lost: what was acknowledged is in exactly one state, what was refused is not there, and
// everything has ended.
func (e evidence) lost() []violation {
	var all []violation
	current := map[string]int{}
	for _, g := range e.generations {
		if g.Current {
			current[g.name()]++
		}
		switch {
		case g.Current && g.State.Pending():
			all = append(all, violation{stuck, g.String()})
		case int64(g.Attempt) != g.Leases-g.HandedBack:
			all = append(all, violation{disagrees, fmt.Sprintf("%s, %d leases, of which %d were handed back", g, g.Leases, g.HandedBack)})
		}
	}
	acknowledged, asked := map[string]bool{}, map[string]bool{}
	for _, r := range e.requests {
		if r.Verb == enqueues {
			acknowledged[r.name()] = acknowledged[r.name()] || r.As == ok
			asked[r.name()] = asked[r.name()] || r.As != failed
		}
	}
	for name, was := range acknowledged {
		if was && current[name] != 1 {
			all = append(all, violation{lost, fmt.Sprintf("%s was acknowledged and is in %d states", name, current[name])})
		}
	}
	for name := range current {
		if !asked[name] {
			all = append(all, violation{disagrees, name + " is there, and every request for it failed"})
		}
	}
	return all
}

// effects: one a key, one a job, and as the states say.
func (e evidence) effects() []violation {
	var all []violation
	happened := map[string]int{}
	for _, j := range e.journal {
		if j.Acted {
			happened[j.Key]++
		}
	}
	known := map[string]bool{}
	ofJob := map[string]int{}
	for _, g := range e.generations {
		n := happened[g.effectKey()]
		known[g.effectKey()] = true
		ofJob[g.name()] += n
		switch {
		case n > 1:
			all = append(all, violation{duplicate, fmt.Sprintf("%s happened %d times", g, n)})
		case g.State == job.Delivered && n == 0:
			all = append(all, violation{dishonest, g.String() + ", and it has not happened"})
		case (g.State == job.Quarantined || g.State == job.Cancelled) && n > 0:
			all = append(all, violation{dishonest, g.String() + ", and it has happened"})
		}
	}
	for name, n := range ofJob { // nobody forced anything
		if n > 1 {
			all = append(all, violation{duplicate, fmt.Sprintf("%s happened %d times over its generations", name, n)})
		}
	}
	for key := range happened {
		if !known[key] {
			all = append(all, violation{disagrees, key + " happened, and is not in the ledger"})
		}
	}
	return all
}

// stale: no request of a generation came behind the redrive that opened its successor.
func (e evidence) stale() []violation {
	successors := map[string]redriven{} // by the effect key of the predecessor
	for _, r := range e.redrives {
		successors[effectKey(r.Kind, r.Key, r.Predecessor)] = r
	}
	var all []violation
	for _, j := range e.journal {
		// The ledger's clock may have been stepped then.
		if r, there := successors[j.Key]; there && j.Began.After(r.At.Add(e.slack())) {
			all = append(all, violation{stale, fmt.Sprintf("%s was sent %s after it was redriven", j.Key, j.Began.Sub(r.At))})
		}
	}
	return all
}

// clockSlack is how far apart two clocks of one machine may be, and slack the same where the
// ledger's was stepped.
const clockSlack = 250 * time.Millisecond

func (e evidence) slack() time.Duration {
	for _, i := range e.incidents {
		if i.Fault == "step-clock" {
			return clockSlack + clockStep
		}
	}
	return clockSlack
}

// late: no effect began after its deadline.
func (e evidence) late() []violation {
	deadlines := map[string]time.Time{}
	for _, g := range e.generations {
		if g.Deadline != nil {
			deadlines[g.effectKey()] = *g.Deadline
		}
	}
	var all []violation
	for _, j := range e.journal {
		if d, has := deadlines[j.Key]; has && j.Began.After(d.Add(e.slack())) {
			all = append(all, violation{late, fmt.Sprintf("%s began %s after its deadline", j.Key, j.Began.Sub(d))})
		}
	}
	return all
}

// ambiguousFor says for whom a fault may make an outcome unknown: everybody, or the
// processes that it names.
var ambiguousFor = map[string]bool{
	"restart-database": true, "kill-database": true, "exhaust-connections": true, "lock-ledger": true, "read-only-database": true, "step-clock": true, "kill-receiver": true,
	"kill-worker": false, "pause-worker": false, "stop-worker": false, "kill-schedulers": false,
	"cut-network": false, "hold-network": false, "slow-network": false, "lose-replies": false,
}

// unexplained: whatever may have happened is so for a reason that was injected: the
// receiver was ambiguous about that very attempt, or its worker, or what it hangs on, was
// broken while the attempt ran.
func (e evidence) unexplained() []violation {
	type attempt struct {
		key string
		n   int32
	}
	ambiguous := map[attempt]bool{}
	for _, j := range e.journal {
		n, err := strconv.ParseInt(j.Attempt, 10, 32)
		if err == nil && j.Does.ambiguous() {
			ambiguous[attempt{j.Key, int32(n)}] = true
		}
	}
	var all []violation
	for _, d := range e.doubts {
		if ambiguous[attempt{effectKey(d.Kind, d.Key, d.Generation), d.Attempt}] || e.broken(d) {
			continue
		}
		all = append(all, violation{unexplained, fmt.Sprintf("%s/%s generation %d, attempt %d of %s: %s %s, %s after its lease",
			d.Kind, d.Key, d.Generation, d.Attempt, e.workers[d.Worker].name, d.Name, d.Code, d.At.Sub(d.Leased).Round(time.Millisecond))})
	}
	return all
}

// lingers is how long after a fault what it broke may still be found: a lease that was not
// renewed, and the sweep.
const lingers = leaseTime + 5*time.Second

// broken reports whether something was broken while an attempt ran.
func (e evidence) broken(d doubt) bool {
	who := e.workers[d.Worker].name
	return slices.ContainsFunc(e.incidents, func(i incident) bool {
		everybody, is := ambiguousFor[i.Fault]
		hit := is && (everybody || who != "" && strings.Contains(i.Target, who))
		until := i.To
		if until.IsZero() {
			until = d.At
		}
		return hit && i.From.Before(d.At.Add(e.slack())) && until.Add(lingers+e.slack()-clockSlack).After(d.Leased)
	})
}

// orderPatience bounds the search for an order of one job's history.
const orderPatience = 10 * time.Second

// disordered: the history of each job has an order.
func (e evidence) disordered() []violation {
	var all []violation
	for name, history := range e.histories() {
		switch porcupine.CheckOperationsTimeout(jobModel, history, orderPatience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			all = append(all, violation{disordered, name + ": " + described(history)})
		case porcupine.Unknown:
			all = append(all, violation{disordered, name + ": no order was found in time"})
		}
	}
	return all
}

// histories are the operations on each job. One that nobody answered may have happened at
// any time since.
func (e evidence) histories() map[string][]porcupine.Operation {
	all := map[string][]porcupine.Operation{}
	clients := map[string]int{}
	var end int64
	for _, r := range e.requests {
		end = max(end, r.Answered.UnixNano())
	}
	for _, j := range e.journal {
		end = max(end, j.At.UnixNano())
	}
	add := func(name string, r request, called, answered int64) {
		if r.As == unclear {
			answered = end + 1
		}
		clients[name]++
		all[name] = append(all[name], porcupine.Operation{ClientId: clients[name], Input: r, Call: called, Return: max(answered, called+1)})
	}
	for _, r := range e.requests {
		if r.As != failed { // of which nothing happened
			add(r.name(), r, r.Called.UnixNano(), r.Answered.UnixNano())
		}
	}
	byKey := map[string]generation{}
	for _, g := range e.generations {
		byKey[g.effectKey()] = g
	}
	for _, j := range e.journal {
		if g, there := byKey[j.Key]; there && j.Acted {
			add(g.name(), request{Verb: effects, Kind: g.Kind, Key: g.Key, Generation: g.Generation, As: ok}, j.Began.UnixNano(), j.At.UnixNano())
		}
	}
	return all
}

// described lists a history in the order of its calls.
func described(history []porcupine.Operation) string {
	history = slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	lines := make([]string, len(history))
	for i, o := range history {
		lines[i] = fmt.Sprintf("%s–%s %s", instant(o.Call), instant(o.Return), jobModel.DescribeOperation(o.Input, nil))
	}
	return strings.Join(lines, "; ")
}

func instant(nanoseconds int64) string { return time.Unix(0, nanoseconds).UTC().Format("05.000") }
