package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Report is the end of an attempt as its worker states it.
type Report struct {
	Attempt
	Result job.Result
	// Classifier is the version of the rules that classified the result.
	Classifier string
	// Kind is the kind with the policy that the attempt was leased under; nil where the
	// reporter does not know it.
	Kind *Kind
}

// reports are the events of what a worker may report.
var reports = map[job.Outcome]Name{
	job.OutcomeDelivered: Done,
	job.OutcomeFailed:    NotDone,
	job.OutcomeUnknown:   MayBeDone,
	job.OutcomeNotBegun:  HandedBack,
}

// Event is what the report of the worker tells the machine.
func (r Report) Event(w Worker) Event {
	return Event{Name: reports[r.Result.Outcome], Fence: r.Fence, Result: r.Result, Worker: w.ID, Actor: "worker"}
}

// Settled is what became of a report.
type Settled struct {
	Attempt
	// State is where the generation stands now.
	State job.State
	// Late: the lease was over; the report was kept as evidence or was a copy.
	Late bool
	// Duplicate: a success that changed nothing, since the generation was delivered by
	// another attempt, cancelled or redriven before. Where it was not the receiver who
	// deduped it, it is an effect too many.
	Duplicate bool
	// WakeAt is when a retry begins.
	WakeAt time.Time
	// Pending: nothing was settled, since somebody has locked the row; the report is to
	// be sent again.
	Pending bool
}

// Settled is what the decision about the report came to; row and change are zero
// where the ledger has no such generation.
func (r Report) Settled(row Row, change Change) Settled {
	s := Settled{Attempt: r.Attempt, State: row.State, WakeAt: row.WakeAt, Late: true}
	if e := change.Record; e != nil {
		s.Late = e.Late
		answered := row.State == job.Delivered && row.Current() && row.Attempt == 1 // the same effect
		s.Duplicate = e.Name == Done && e.Late && e.From == e.To && !answered
	}
	return s
}
