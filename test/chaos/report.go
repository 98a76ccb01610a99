package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const introduction = `# Chaos

Real processes (two schedulers, two dispatchers, three workers, the operator's tool), a PostgreSQL server, a broker, and a receiver
that writes down and syncs every effect before it answers. Producers enqueue and cancel, an operator redrives and resolves, and two
nemeses break things by a seed: one the processes, one the servers and the ways to them. Then everything is mended, what is pending
ends, and a checker reads three witnesses that know nothing of each other: the receiver's journal, the ledger, and the driver's log,
in which every request is ok, failed or unknown. The package documentation of [test/chaos](../../test/chaos) has the details;
` + "`make chaos`" + ` makes the runs and writes this page.

`

// markdown is the report of all runs.
func markdown(o options, results []outcome) string {
	var b strings.Builder
	b.WriteString(introduction)
	found := 0
	for _, r := range results {
		found += len(r.violations)
	}
	fmt.Fprintf(&b, "Last run: %d runs of %s from seed %d; **%d anomalies**.\n\n", len(results), o.lasts, o.seed, found)
	b.WriteString(anomalies(results))
	b.WriteString("## Runs\n\n| run | seed | bus | requests | ok | failed | unknown | jobs | effects | faults | attempts in doubt | anomalies | s |\n" +
		"|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		jobs := 0
		for _, n := range r.states {
			jobs += n
		}
		fmt.Fprintf(&b, "| %d | %d | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.0f |\n", r.plan.number, r.plan.seed, r.plan.bus,
			r.requests[ok]+r.requests[failed]+r.requests[unclear], r.requests[ok], r.requests[failed], r.requests[unclear],
			jobs, r.effects, len(r.incidents), r.doubts, len(r.violations), r.took.Seconds())
	}
	b.WriteString("\nHow jobs ended: " + ends(results) + ".\n\n")
	b.WriteString(faultTable(o, results))
	b.WriteString(recoveryTable(results))
	b.WriteString("## What was checked\n\n" + checked)
	return b.String()
}

// checked says what the checker looks for.
const checked = `| anomaly | what it would be |
|---|---|
| lost | a job that was acknowledged and is not in exactly one state |
| stuck | a job that has not ended although everything runs |
| duplicate | a second effect under an effect key, or of a job over its generations |
| stale | a request of a generation behind its redrive |
| dishonest | delivered and not happened; quarantined or cancelled and happened |
| late | an effect that began after its deadline |
| unexplained | an attempt in doubt though nothing ambiguous was injected while it ran |
| not linearizable | a job whose history, as producers, operator, observer and receiver saw it, has no order that agrees with their clocks |
| disagrees | ` + "`duly check`" + ` finds rows that their events do not lead to; attempts that are not the leases; effects of unknown jobs |
| slow | the fleet is not back at 80 % of its undisturbed rate within 60 s |
`

// anomalies lists the anomalies.
func anomalies(results []outcome) string {
	var b strings.Builder
	for _, r := range results {
		for _, v := range r.violations {
			fmt.Fprintf(&b, "- run %d: %s\n", r.plan.number, strings.ReplaceAll(v.String(), "|", "\\|"))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "## Anomalies\n\n" + b.String() + "\n"
}

// ends counts jobs by how they ended.
func ends(results []outcome) string {
	counts := map[string]int{}
	for _, r := range results {
		for state, n := range r.states {
			counts[state] += n
		}
	}
	var parts []string
	for _, state := range slices.SortedFunc(keysOf(counts), func(a, b string) int { return cmp.Compare(counts[b], counts[a]) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	return strings.Join(parts, ", ")
}

func keysOf(m map[string]int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// faultTable says how often each fault struck.
func faultTable(o options, results []outcome) string {
	used := map[string]int{}
	for _, r := range results {
		for _, i := range r.incidents {
			used[i.Fault]++
		}
	}
	struck := strikes(results)
	var b strings.Builder
	b.WriteString("## Faults\n\nA fault has struck when its effect was seen. One that was asked for and never struck fails the whole.\n\n" +
		"| fault | what it does | used | struck |\n|---|---|---:|---:|\n")
	names := asked(o)
	for _, f := range allFaults {
		if slices.Contains(names, f.name) {
			fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", f.name, f.does, used[f.name], struck[f.name])
		}
	}
	b.WriteString("\n")
	return b.String()
}

// recoveryTable says how soon things moved again.
func recoveryTable(results []outcome) string {
	var alone, too []time.Duration
	for _, r := range results {
		alone, too = append(alone, r.alone...), append(too, r.too...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Recovery\n\nThe lease time is %s. Counted are leases of workers that were killed while neither the ledger nor a scheduler was broken otherwise.\n\n", leaseTime)
	b.WriteString("| after | leases | median | p99 | longest | bound at p99 |\n|---|---:|---:|---:|---:|---:|\n")
	for _, row := range []struct {
		what  string
		all   []time.Duration
		bound time.Duration
	}{{"a worker was killed, its jobs move again", alone, leaseTime + sooner}, {"the schedulers were killed with it", too, 2 * leaseTime}} {
		fmt.Fprintf(&b, "| %s | %d | %.1f s | %.1f s | %.1f s | %s |\n", row.what, len(row.all),
			percentile(row.all, 50).Seconds(), percentile(row.all, 99).Seconds(), percentile(row.all, 100).Seconds(), row.bound)
	}
	b.WriteString("\n| run | undisturbed, jobs/s | after the faults, jobs/s | share | reached after |\n|---:|---:|---:|---:|---:|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.0f %% | %.0f s |\n", r.plan.number, r.undisturbed, r.back, 100*r.share(), r.backAfter.Seconds())
	}
	b.WriteString("\nThe rate is bounded by the slots of the fleet and a receiver that takes 200 ms, not by the machine.\n\n")
	return b.String()
}
