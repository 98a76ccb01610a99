package explain

import (
	"fmt"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// scheduled explains what waits for an instant.
func (e *explainer) scheduled() {
	e.When = e.g.WakeAt
	switch e.g.Waiting {
	case job.WaitingRetry:
		e.retry()
	case job.WaitingHeld:
		e.held()
	default:
		e.due()
	}
	if e.story.Now.After(e.g.PromoteAt().Add(overdue)) {
		e.dof("it is overdue: check that a scheduler runs and reaches the ledger")
	}
}

// overdue is more than a scheduler needs to see that an instant has come.
const overdue = machine.RetryGrace

func (e *explainer) due() {
	e.State = "scheduled: it is not due yet"
	e.Why = "its producer asked for it then"
	if e.g.Generation > 1 {
		e.Why = "the redrive that opened this generation asked for a later start"
	}
	e.Next = fmt.Sprintf("it becomes ready, and is announced on lane %s", e.g.Kind.Lane)
}

func (e *explainer) retry() {
	e.State = "scheduled: it waits for another try"
	e.Why = e.attempted()
	e.Next = fmt.Sprintf("attempt %d begins, by the delayed announcement on the bus; should that be lost, the scheduler makes it ready 5 s later", e.g.Attempt+1)
	if e.g.InDoubt() {
		e.Next = fmt.Sprintf("attempt %d repeats the effect under the same key, since its receiver dedupes", e.g.Attempt+1)
		if !e.g.PersonOnly() {
			e.Next += fmt.Sprintf("; once no repeat is possible, its receiver is asked (by %s)", e.g.Promises.Lookup)
		}
	}
	if wait, ok := e.last(func(ev machine.Logged) bool { return ev.To == job.Scheduled }); ok && waits[wait.Why] != "" {
		e.Why += "; the delay is " + waits[wait.Why]
	}
	e.dof("%s", e.g.LastCode.Action())
}

// waits says how the instant of a retry came about.
var waits = map[string]string{
	"backoff":     "the kind's backoff",
	"deadline":    "shortened, so that a try fits before the deadline",
	"retry_after": "what the receiver asked for",
	"window":      "shortened, so that a repeat fits into the receiver's window",
}

func (e *explainer) held() {
	e.State = "scheduled: it may not run now (" + string(e.g.Hold) + ")"
	e.Why = holds[e.g.Hold].why
	if e.Why == "" {
		e.Why = "held: " + string(e.g.Hold)
	}
	e.Next = "it becomes ready again and is looked at anew; a hold costs no attempt"
	e.dof("%s", holds[e.g.Hold].do)
}

// holds says what each hold means, and what a person does about it.
var holds = map[job.Hold]struct{ why, do string }{
	job.HoldPaused:      {"its kind, lane or endpoint was paused by a person", "resume it when it may run again"},
	job.HoldRate:        {"the rate limit of its kind, lane or endpoint is used up", "raise the limit if this lasts"},
	job.HoldConcurrency: {"as many as allowed are being tried already", "raise the limit if this lasts"},
	job.HoldBreaker:     {"its endpoint fails, and is given a rest", "look at the endpoint"},
	job.HoldUnknownKind: {"the worker that received it does not know its kind", "deploy workers that know the kind, or add it to their duly.yaml"},
	job.HoldVersion:     {"the kind's version guard excludes the worker's version", "deploy workers of an allowed version"},
	job.HoldSlots:       {"the worker that received it had no free slot", "add workers if this lasts"},
}

// attempted says how the last attempt ended.
func (e *explainer) attempted() string {
	g := e.g
	how := "did not happen"
	if g.LastClass != "" {
		how += fmt.Sprintf(" (%s, %s)", g.LastClass, g.LastCode)
	}
	if g.InDoubt() {
		how = "may have happened"
		if g.LastCode != "" {
			how += " (" + string(g.LastCode) + ")"
		}
	}
	text := fmt.Sprintf("attempt %d of %d %s", g.Attempt, g.Kind.Policy.MaxAttempts, how)
	if ended, ok := e.last(func(ev machine.Logged) bool { return ev.Outcome != "" && !ev.Late }); ok && ended.Detail != "" {
		text += ": " + ended.Detail
	}
	return text
}
