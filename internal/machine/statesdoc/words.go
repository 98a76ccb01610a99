package main

import (
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const introduction = `<!-- Generated from internal/machine by go generate ./internal/machine; do not edit. -->

# The states of a job

A job is delivered in generations. Each generation has one row in the ledger, in one of seven states. What
changes it is decided in one place, ` + "`internal/machine`" + `: a table of cells, one for each event in each state, and
` + "`Next`" + `, which picks the cell and runs it. Everything here speaks of a job's *current* generation: an older one is
evidence and changes no more.

`

// states says what each state means.
var states = map[job.State]string{
	job.Scheduled:   "waits for an instant: to become due, to be retried, or because it is held",
	job.Ready:       "is announced on the bus by an emission, and may be leased by it",
	job.Leased:      "is being tried by a worker, under a fence",
	job.Delivered:   "happened, and is known to have happened. Terminal",
	job.Quarantined: "is not tried again by the machine; as far as anyone could know, it did not happen. Terminal until a person redrives it",
	job.Cancelled:   "was withdrawn before it could happen. Terminal",
	job.Unknown:     "may have happened; a lookup or a person must say. Terminal once closed",
}

// events says what each event means.
var events = map[machine.Name]string{
	machine.Due:        "what it waited for has come",
	machine.Lost:       "its emission was lost on the bus",
	machine.Lease:      "a worker asks for it, by a reference of its newest emission",
	machine.Hold:       "it may not run now",
	machine.HandedBack: "the attempt never began",
	machine.Done:       "the worker says that it happened, in time or late",
	machine.NotDone:    "the worker says that it did not happen",
	machine.MayBeDone:  "the worker says that it may have happened",
	machine.LeaseEnded: "the lease ended without a result",
	machine.AnswerYes:  "a lookup or a person says that it happened",
	machine.AnswerNo:   "a lookup or a person says that it did not happen",
	machine.Expire:     "deadline, age, lifetime or window may be over",
	machine.Close:      "it is asked about no more: `resolve_within` is over, or a person gives up",
	machine.Cancel:     "a producer or a person withdraws it",
	machine.Redriven:   "a person opens the next generation",
}

// reasons says what each reason means.
var reasons = map[job.Reason]string{
	job.ReasonPermanent:    "the same input would fail again",
	job.ReasonUnclassified: "no rule matched the failure, as often as `unclassified_cap` allows",
	job.ReasonAttempts:     "`max_attempts` are used up",
	job.ReasonTooOld:       "`max_age` of the generation or `max_lifetime` of the job is over",
	job.ReasonDeadline:     "the deadline has passed, or the receiver asked to wait beyond it",
}

const rules = `## The rules behind the cells

- **Doubt sticks.** An attempt that may have happened, or whose lease ended without a result, puts its generation *in
  doubt*, from the lease of the first such attempt until a success, a yes, or a no that was asked late enough. In doubt
  it can end only as delivered or unknown, whatever ended it, so it is never quarantined and never cancelled.
- **Repeatable now.** What is in doubt is tried again only if the receiver dedupes, and only if the last possible byte of
  the next attempt plus ` + "`settle`" + ` falls within ` + "`window`" + ` of the lease of the first doubtful attempt. A longer wait is shortened.
- **The end of an attempt**, the first that holds. In doubt, this attempt included: a cancel was requested, it has
  expired, or no repeat is allowed (the window is over, the failure is permanent, a cap is reached): unknown, and
  what ended it is noted; else it is retried. Not in doubt: a cancel was requested: cancelled; it has expired, the
  failure is permanent, unclassified failures or attempts are used up: quarantined; else it is retried. What was
  handed back becomes ready instead of being retried, and does not count.
- **Expired first.** Whatever would promote, announce or lease a generation that has expired ends it instead.
- **An emission with every ready.** A generation becomes ready only together with an emission, and a retry is written
  together with its delayed one. So a reference that cannot be leased is stale, and is acknowledged.
- **Fences.** A worker's word counts under the newest fence. What comes late is evidence; only a success changes
  anything, and it changes everything but ` + "`cancelled`" + ` to delivered. A copy of what was said before changes nothing.
- **A "no"** counts only if it was asked once ` + "`settle`" + ` had passed since the last possible byte of every doubtful
  attempt. What had ended the generation while it was in doubt then ends it still; what was closed is quarantined as
  too old, or cancelled if that was requested.
- **A person is told once.** Entering quarantined, or an unknown outcome that nobody else can settle, emits one notice a
  generation.
`
