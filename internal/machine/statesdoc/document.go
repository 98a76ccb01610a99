package main

import (
	"fmt"
	"strings"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// columns are the states that events change; cancelled has none.
func columns() []job.State {
	var all []job.State
	for _, s := range job.States() {
		for _, n := range machine.Names() {
			if machine.Says(n, s) != "" {
				all = append(all, s)
				break
			}
		}
	}
	return all
}

// document is the whole of docs/states.md.
func document() string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("## The states\n\n| state | meaning |\n|---|---|\n")
	for _, s := range job.States() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s, states[s])
	}
	b.WriteString("\n## The table\n\nLines are events, columns are states of the current generation. An empty cell changes nothing:\nthe event is refused, or kept as evidence.\n\n")
	table(&b)
	b.WriteString("\n`cancelled` has no column: it changes no more.\n\n")
	b.WriteString(rules)
	b.WriteString("\n## The diagram\n\nEvery change of state that the machine can decide, found by asking it.\n\n```mermaid\nstateDiagram-v2\n")
	diagram(&b)
	b.WriteString("```\n\n## Why a generation is quarantined\n\n| reason | meaning |\n|---|---|\n")
	for _, r := range job.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, reasons[r])
	}
	b.WriteString("\nOn an `unknown` generation the same word notes what would have quarantined it, had it not been in doubt.\n")
	return b.String()
}

func table(b *strings.Builder) {
	states := columns()
	b.WriteString("| event |")
	for _, s := range states {
		fmt.Fprintf(b, " %s |", s)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(states)) + "\n")
	for _, n := range machine.Names() {
		fmt.Fprintf(b, "| **`%s`**: %s |", n, events[n])
		for _, s := range states {
			fmt.Fprintf(b, " %s |", machine.Says(n, s))
		}
		b.WriteString("\n")
	}
}

func diagram(b *strings.Builder) {
	b.WriteString("    [*] --> scheduled: due later\n    [*] --> ready: due now\n")
	found := edges()
	for _, from := range job.States() {
		for _, to := range job.States() {
			if names := found[edge{from, to}]; len(names) > 0 {
				fmt.Fprintf(b, "    %s --> %s: %s\n", from, to, strings.Join(names, ", "))
			}
		}
	}
	b.WriteString("    delivered --> [*]\n    cancelled --> [*]\n")
}
