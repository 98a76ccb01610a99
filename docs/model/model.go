// Package model is the formal model of one job, for programs: the table of what the model allows, read from the
// model itself (duly.pml), and a check of recorded steps against it.
//
// The model is checked by Spin, in every order of steps, with docs/model/check; README.md says how. This package
// keeps it and the code together. Its test asks internal/machine about every event in every row that can exist and
// compares the answers with the table, cell by cell; `check` compares the table with every step that the model makes.
// So a rule that changes on one side fails on the other. A simulation, or a ledger, may record the steps of real
// generations and hold them against the model with Check.
package model

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"duly.dev/duly/pkg/job"
)

//go:embed duly.pml
var source string

// Step is one thing that happened to a generation: the event, as internal/machine names it, and where the generation
// stood before and afterwards, as Stand names it. Evidence that changed nothing is a step too; what was refused is none.
type Step struct{ Event, From, To string }

// String writes the step for people.
func (s Step) String() string { return s.From + " -" + s.Event + "-> " + s.To }

// Superseded is where a generation stands that has a successor.
const Superseded = "superseded"

// Stand names where a current generation stands, as the table does: the state; of a scheduled one what it waits for;
// with a question mark where it is in doubt and may still be tried; "closed" where it is unknown and asked about no more.
func Stand(state job.State, waiting job.Waiting, inDoubt, closed bool) string {
	stand := string(state)
	switch {
	case state == job.Unknown && closed:
		return "closed"
	case state == job.Scheduled:
		stand = string(waiting)
	}
	if inDoubt && state.Pending() {
		stand += "?"
	}
	return stand
}

// Table lists every step that the model allows, in the order of the model's table.
func Table() []Step {
	var all []Step
	for line := range strings.Lines(block()) {
		head, tos, _ := strings.Cut(strings.Trim(line, " *\n"), ":")
		event, from, _ := strings.Cut(head, " ")
		for to := range strings.FieldsSeq(tos) {
			all = append(all, Step{event, strings.TrimSpace(from), strings.TrimSuffix(to, "~")})
		}
	}
	return all
}

// allowed is the table for whoever checks many steps.
var allowed = sync.OnceValue(func() map[Step]bool {
	steps := make(map[Step]bool)
	for _, s := range Table() {
		steps[s] = true
	}
	return steps
})

// block is the part of the model's first comments that holds the table.
func block() string {
	_, rest, _ := strings.Cut(source, " * TABLE\n")
	table, _, _ := strings.Cut(rest, " * END\n")
	return table
}

// Forbidden is a step that the model does not allow.
type Forbidden struct {
	// At is its place among the steps that were checked, from 0.
	At   int
	Step Step
	// Why says what is wrong with it.
	Why string
}

// Error says which step it is, and what is wrong.
func (f *Forbidden) Error() string { return fmt.Sprintf("step %d, %s: %s", f.At, f.Step, f.Why) }

// Check holds what happened to one generation, the oldest step first, against the model. It returns nil, or the
// first step that the model does not allow, as a *Forbidden: one that the table does not list, or one that does not
// begin where the one before it ended.
func Check(steps []Step) error {
	table := allowed()
	for i, s := range steps {
		switch {
		case i > 0 && s.From != steps[i-1].To:
			return &Forbidden{i, s, "the step before it ended in " + steps[i-1].To}
		case !table[s]:
			return &Forbidden{i, s, "the model has no such step"}
		}
	}
	return nil
}
