package explain

import (
	"fmt"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// overdueCleanup is more than whoever cleans up needs to see that an instant has come.
const overdueCleanup = time.Minute

// cleanup says when what was generated for the job is removed, how often that failed and
// why.
func (e *explainer) cleanup() {
	c := e.story.Cleanup
	if c == (machine.Cleanup{}) {
		return
	}
	if !c.DoneAt.IsZero() {
		e.cleaned(c)
		return
	}
	if !c.GivenUpAt.IsZero() {
		e.Notes = append(e.Notes, "its cleanup was given up at "+instant(c.GivenUpAt)+": nothing that was generated for it is removed any more")
		e.dof("to have it removed all the same: dlq cleanup retry %s --reason WHY", e.name())
		return
	}
	by := c.By
	if rule := e.g.Kind.Cleanup; rule != nil {
		by = rule.By // it is done as the configuration says now
	}
	why := "it is delivered as the kind's cleanup asks"
	switch {
	case c.Accepted:
	case e.g.State == job.Delivered:
		why = "it is delivered without a receipt, which the kind's cleanup counts like any other end"
	case e.g.State == job.Cancelled:
		why = "it is cancelled"
	default:
		why = fmt.Sprintf("it is %s, unless somebody redrives it before", e.g.State)
	}
	if e.story.Now.Before(c.DueAt) {
		e.Notes = append(e.Notes, fmt.Sprintf("what was generated for it is removed from %s on, by %s: %s", instant(c.DueAt), cleaners[by], why))
		e.later("what was generated for it is removed, by "+cleaners[by], c.NextAt)
		return
	}
	note := fmt.Sprintf("its cleanup is due since %s, by %s: %s", instant(c.DueAt), cleaners[by], why)
	if c.Tries > 0 {
		note += fmt.Sprintf("; it was tried %s", times(c.Tries))
	}
	if !c.FailedAt.IsZero() {
		note += fmt.Sprintf("; it failed last at %s: %s", instant(c.FailedAt), c.Error)
	}
	e.Notes = append(e.Notes, note)
	switch {
	case !c.ParkedAt.IsZero():
		e.Notes = append(e.Notes, "its cleanup waits for a person since "+instant(c.ParkedAt)+": max_tries or max_age was reached")
		e.dof("once what it failed with is repaired: dlq cleanup retry %s --reason WHY; if it is not to be removed: dlq cleanup give-up %s --reason WHY", e.name(), e.name())
	case e.story.Now.After(c.NextAt.Add(overdueCleanup)):
		e.dof("its cleanup is overdue: check that %s", idle[by])
	}
	e.later("its cleanup is tried", c.NextAt)
}

// cleaned tells of a job whose cleanup is done.
func (e *explainer) cleaned(c machine.Cleanup) {
	what := "what was generated for it was removed"
	if c.By == machine.MeansSQL {
		what = fmt.Sprintf("the statement of its cleanup changed %d rows", c.Rows)
	}
	note := what + " at " + instant(c.DoneAt)
	if c.Generation != e.g.Generation {
		note += fmt.Sprintf(", behind generation %d; it is never removed a second time", c.Generation)
	}
	e.Notes = append(e.Notes, note)
	switch e.g.State {
	case job.Delivered:
		e.State = "delivered and cleaned: it happened, and what was generated for it is removed"
	case job.Quarantined, job.Unknown:
		e.dof("a redrive needs --force and --evidence: whoever performs it will not find what was generated for it")
	case job.Scheduled, job.Ready, job.Leased, job.Cancelled:
	}
}

// later says what happens next where nothing else does.
func (e *explainer) later(what string, at time.Time) {
	if e.Next == "nothing" && !at.IsZero() {
		e.Next, e.When = what, at
	}
}

// cleaners says by whom rows are removed.
var cleaners = map[machine.Means]string{
	machine.MeansSQL: "the statement of the kind's cleanup",
	machine.MeansGo:  "the cleanup beside the kind's handler",
}

// idle says what must run for that.
var idle = map[machine.Means]string{
	machine.MeansSQL: "a scheduler runs whose duly.yaml has the kind's cleanup",
	machine.MeansGo:  "a worker runs that has the cleanup beside the kind's handler",
}
