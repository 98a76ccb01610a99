package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Name names an event of the transition table.
type Name string

const (
	// Due: the instant that a scheduled generation waited for has come.
	Due Name = "due"
	// Lost: its emission was judged lost on the bus.
	Lost Name = "lost"
	// Lease: a worker asks for it, by a reference of the row's emission.
	Lease Name = "lease"
	// Hold: it may not run now.
	Hold Name = "hold"
	// HandedBack: the attempt never began.
	HandedBack Name = "handed_back"
	// Done: the attempt's worker says that the effect happened. In time or late.
	Done Name = "done"
	// NotDone: the attempt's worker says that the effect did not happen.
	NotDone Name = "not_done"
	// MayBeDone: the attempt's worker says that the effect may have happened.
	MayBeDone Name = "may_be_done"
	// LeaseEnded: the lease ended without a result.
	LeaseEnded Name = "lease_ended"
	// AnswerYes: a lookup or a person says that it happened.
	AnswerYes Name = "answer_yes"
	// AnswerNo: a lookup or a person says that it did not happen.
	AnswerNo Name = "answer_no"
	// Expire: its deadline, age, lifetime or window may be over.
	Expire Name = "expire"
	// Close: its unknown outcome is asked about no more.
	Close Name = "close"
	// Cancel: a producer or a person withdraws it.
	Cancel Name = "cancel"
	// Redriven: a person opens the next generation. See Redrive.
	Redriven Name = "redriven"
	// Replaced: a producer gives another body. It is apart from the table; see Replace.
	Replaced Name = "replaced"
)

// Names lists the events in the order in which docs/states.md shows them.
func Names() []Name {
	return []Name{
		Due, Lost, Lease, Hold, HandedBack, Done, NotDone, MayBeDone, LeaseEnded,
		AnswerYes, AnswerNo, Expire, Close, Cancel, Redriven,
	}
}

// Event is something that happened to a generation. Which fields count depends
// on Name; the comment of each says for which.
type Event struct {
	Name Name
	// Fence is that of the attempt (HandedBack, Done, NotDone, MayBeDone, LeaseEnded)
	// or the newest one of the generation that the answer was asked about (answers;
	// Close, where a person gives up: 0 there says that resolve_within is over).
	Fence int64
	// Emission is that of the reference (Lease), of the outbox row (Lost), or of the
	// reference that may not run now (Hold; 0 where a person or the scheduler holds).
	Emission int32
	// Result is the end of the attempt (Done, NotDone, MayBeDone, HandedBack).
	Result job.Result
	// Worker is who leases (Lease) or reports (ends of attempts).
	Worker string
	// Hold is why, and Until is for how long (Hold).
	Hold  job.Hold
	Until time.Time
	// AskedAt is when the receiver was asked or the person looked (AnswerNo).
	AskedAt time.Time
	// Detail is a short line of evidence (answers, Cancel, Close, Hold); a forced
	// redrive must have it.
	Detail string
	// Forced and Approver belong to a redrive.
	Forced   bool
	Approver string
	// Actor is the person or part that acts, as it is recorded.
	Actor string
}

// Record is what is appended to the event table for a transition, or for evidence
// that changes nothing.
type Record struct {
	Name     Name
	From, To job.State
	Attempt  int32
	Fence    int64
	Emission int32
	Outcome  job.Outcome
	Class    job.Class
	Code     job.Code
	// WakeAt is when it goes on, and Why is how that, or the new state, came about.
	WakeAt  time.Time
	Why     string
	Detail  string
	Worker  string
	Actor   string
	Receipt *job.Receipt
	// Late: the event came from a lease that was over, or changed nothing; it is kept
	// as evidence.
	Late bool
}

// Emission is one announcement to write to the outbox with the transition.
type Emission struct {
	// Dead announces on the dead topic that a person is needed; else it is work.
	Dead bool
	// Number is the emission's number; 0 for a dead notice.
	Number int32
	// At delays it; zero means now.
	At time.Time
}

// Refusal is why an event changed nothing. The set is closed.
type Refusal string

const (
	// Applied: the event was applied or recorded.
	Applied Refusal = ""
	// Stale: the event speaks of an older generation, emission, fence or state.
	Stale Refusal = "stale"
	// Early: what a scheduled generation waits for has not come; its WakeAt says when.
	Early Refusal = "early"
	// NotExpired: nothing has expired.
	NotExpired Refusal = "not_expired"
	// TooSoon: "no" counts only if it was asked after settle had passed since the last
	// possible byte of every doubtful attempt; closing by itself waits for
	// resolve_within.
	TooSoon Refusal = "too_soon"
	// Unleased: a generation without a lease has no fence that could be answered.
	Unleased Refusal = "unleased"
	// AlreadyDelivered: what was delivered can be neither cancelled nor redriven.
	AlreadyDelivered Refusal = "delivered"
	// NotEligible: the state does not allow it.
	NotEligible Refusal = "not_eligible"
	// NeedsForce: the outcome is unknown; only a forced redrive with evidence may.
	NeedsForce Refusal = "needs_force"
	// Irrelevant: the deadline or the lifetime of the job is over.
	Irrelevant Refusal = "irrelevant"
)

// Change is what a decision comes to besides the new row.
type Change struct {
	// Refused says why nothing changed; Applied otherwise.
	Refused Refusal
	// Record is what to append; nil when there is nothing to append.
	Record *Record
	// Emissions are written in the same transaction.
	Emissions []Emission
}
