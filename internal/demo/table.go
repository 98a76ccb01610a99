package demo

import (
	"fmt"
	"maps"
	"strings"
	"text/tabwriter"

	"duly.dev/duly/pkg/job"
)

// maxProblems is how many disagreements are shown; more are of the same kind.
const maxProblems = 20

// show prints the comparison for people.
func (d *demonstration) show(c comparison, repeated int) error {
	t := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nRECEIVER\tWHAT IT DOES\tJOBS\tTHE LEDGER SAYS\tEFFECTS SEEN\tTWICE\tBECAUSE\n")
	jobs := 0
	for _, g := range c.groups {
		jobs += g.jobs
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", g.receiver, g.does, g.jobs, statesText(g.states), g.effects, g.duplicates, g.why)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("showing the comparison: %w", err)
	}
	d.tell(c, jobs, repeated)
	return nil
}

// tell says in words what the table does not.
func (d *demonstration) tell(c comparison, jobs, repeated int) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }
	n := d.counts
	line("\nrows:      %d = %d refused + %d of a known key + %d jobs", n.Rows, n.Refused, n.SameKey, n.Jobs)
	line("jobs:      %d = %s", jobs, statesText(c.states))
	line("effects:   %d seen by the receivers, %d of them twice", c.effects, c.duplicates)
	if repeated > 0 {
		line("repeated:  %d requests came again under a key that the receiver had kept; it answered from memory", repeated)
	}
	if d.redrive.generation > 0 {
		line("redriven:  %s to %s, corrected from %s, as generation %d", d.redrive.key, d.redrive.to, d.redrive.from, d.redrive.generation)
	}
	if unknown := c.states[job.Unknown]; unknown > 0 {
		line("unknown:   %d were taken by a receiver that hung up before it said so. The ledger cannot know that, and a mail\n"+
			"           server does not dedupe: Duly does not send them again. A person looks, and says (dlq resolve).", unknown)
	}
	for i, problem := range c.problems {
		if i == maxProblems {
			line("  … and %d more", len(c.problems)-maxProblems)
			break
		}
		line("  DISAGREE: %s", problem)
	}
	verdict := "The ledger and the receivers agree"
	if len(c.problems) > 0 {
		verdict = "THE LEDGER AND THE RECEIVERS DO NOT AGREE"
	}
	line("\n%s: %d lost, %d effects twice, %d of %d rows accounted for, in %.1f s.", verdict, c.lost, c.duplicates,
		n.Refused+n.SameKey+jobs, n.Rows, d.result.Seconds)
}

// statesText lists states with their numbers, in the order of documents.
func statesText(states map[job.State]int) string {
	var parts []string
	for _, s := range job.States() {
		if n := states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

// endedText lists the states that are an end; what is missing is pending.
func endedText(states map[job.State]int) string {
	ended := maps.Clone(states)
	maps.DeleteFunc(ended, func(s job.State, _ int) bool { return s.Pending() })
	return statesText(ended)
}
