package explain

import (
	"fmt"
	"strings"
	"time"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// quarantined explains what the machine will not try again.
func (e *explainer) quarantined() {
	e.State = "quarantined: it will not be tried again by itself, and as far as anyone could know it did not happen"
	e.Why = reasons[e.g.Reason]
	if e.g.Attempt > 0 {
		e.Why += "; " + e.attempted()
	}
	e.Next = "nothing, until a person redrives or cancels it"
	e.dof("%s", e.g.LastCode.Action())
	switch e.g.Reason {
	case job.ReasonDeadline:
		e.dof("if it still matters, redrive it with another deadline: %s --deadline TIME", e.redrive())
	case job.ReasonTooOld:
		e.dof("if it still matters, and the job's lifetime allows it: %s", e.redrive())
	default:
		e.dof("%s", e.redrive())
	}
}

// reasons says each quarantine reason in words.
var reasons = map[job.Reason]string{
	job.ReasonPermanent:    "the same input would fail again",
	job.ReasonUnclassified: "it failed in a way that no rule knows, as often as unclassified_cap allows",
	job.ReasonAttempts:     "max_attempts are used up",
	job.ReasonTooOld:       "its age (max_age) or the lifetime of the job (max_lifetime) was over",
	job.ReasonDeadline:     "its deadline had passed, or the receiver asked to wait beyond it",
}

// unknown explains what may have happened.
func (e *explainer) unknown() {
	g := e.g
	e.State = "unknown: it may have happened"
	e.Why = e.attempted()
	if g.Reason != "" {
		e.Why += fmt.Sprintf("; had it surely not happened, it would be quarantined (%s)", g.Reason)
	} else if !g.CancelRequested {
		e.Why += "; its receiver does not allow a repeat now"
	}
	switch {
	case g.Closed:
		e.State = "unknown, closed: it may have happened, and nobody asks any more"
		e.Next = "nothing: it stays visible"
		e.dof("only a forced redrive sends again: %s --force --evidence WHY", e.redrive())
		e.dof("a late answer still counts: %s", e.resolve("delivered"))
	case g.PersonOnly():
		e.Next, e.When = "nothing until a person says what happened; then it is closed", g.ClosesAt()
		e.ask()
	default:
		e.Next, e.When = "its receiver is asked by "+string(g.Promises.Lookup)+", again and again until it answers, or until it is closed at "+instant(g.ClosesAt()), g.Asking.NextAt
		if !g.Asking.NextAt.IsZero() && e.story.Now.After(g.Asking.NextAt.Add(overdueAsk)) {
			e.dof("%s", stalled[g.Asking.Means])
		}
		e.ask()
	}
	e.asked()
}

// overdueAsk is more than an asker needs to see that an instant has come.
const overdueAsk = 30 * time.Second

// stalled says what to look at where nobody asks, by who would.
var stalled = map[machine.Means]string{
	machine.MeansHTTP: "it is overdue: check that a scheduler runs whose duly.yaml has this lookup",
	machine.MeansSQL:  "it is overdue: check that a scheduler runs whose duly.yaml has this lookup",
	machine.MeansGo:   "it is overdue: check that a worker runs that has this lookup beside the kind's handler",
}

// asked notes how often its receiver was asked, and what it said last.
func (e *explainer) asked() {
	a := e.g.Asking
	if a.Means == "" {
		return
	}
	if a.Times == 0 {
		e.Notes = append(e.Notes, "its receiver was not asked yet (by "+string(a.Means)+")")
		return
	}
	note := fmt.Sprintf("its receiver was asked %s (by %s)", times(a.Times), a.Means)
	if a.Said != "" {
		note += fmt.Sprintf("; the last answer, asked for at %s: %s", instant(a.AskedAt), sayings[a.Said])
		if a.Detail != "" {
			note += " (" + a.Detail + ")"
		}
		if from := e.g.NoFrom(); a.Said == job.SaidNo && a.AskedAt.Before(from) {
			note += ", which was asked too early to count: it may still have been working until " + instant(from)
		}
	}
	e.Notes = append(e.Notes, note)
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// sayings says each answer in words.
var sayings = map[job.Said]string{
	job.SaidYes:     "it happened",
	job.SaidNo:      "it did not happen",
	job.SaidWorking: "it is still working on it",
	job.SaidNothing: "no answer that says anything",
}

// ask tells a person how to answer.
func (e *explainer) ask() {
	e.dof("%s", e.g.LastCode.Action())
	e.dof("it happened: %s", e.resolve("delivered"))
	e.dof("it did not: %s (counts if you looked after %s)", e.resolve("not-delivered"), instant(e.g.NoFrom()))
	e.dof("nobody will ever know: %s", e.resolve("give-up"))
}

// resolve is the command that answers.
func (e *explainer) resolve(as string) string {
	return fmt.Sprintf("dlq resolve %s --fence %d --as %s --evidence WHAT", e.name(), e.g.Fence, as)
}

// redrive is the command that opens the next generation.
func (e *explainer) redrive() string {
	return fmt.Sprintf("dlq redrive %s --generation %d --recovery-key KEY --approver WHO --reason WHY", e.name(), e.g.Generation)
}

// name is the job as a shell takes it.
func (e *explainer) name() string {
	name := e.story.Kind.Name + "/" + e.story.Key
	plain := func(r rune) bool {
		return r < 'a' || r > 'z'
	}
	if strings.IndexFunc(name, func(r rune) bool {
		return plain(r) && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:@+,", r)
	}) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
