package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Story is everything that a ledger keeps about one job, as of one instant.
type Story struct {
	// Now is the ledger's clock when it was read.
	Now                  time.Time
	Job                  int64
	Kind                 Kind
	Key, Subject, Period string
	// Removed: the rows were removed after their retention; LastState is the job's,
	// and nothing else is known any more.
	Removed   bool
	LastState job.State
	// Generations are the job's, the oldest first; the last is the current one.
	Generations []Generation
	// Events are what happened, the oldest first, leases among them. EventsCut: older
	// ones are left out.
	Events    []Logged
	EventsCut bool
	// Redrives are the decisions that opened generations, the oldest first.
	Redrives []RedriveNote
	// Unsendable are emissions of the job that the broker would not take.
	Unsendable []Unsendable
	// Cleanup is the cleanup of the job; zero where none is due.
	Cleanup Cleanup
}

// Current is the current generation; false where the job was removed.
func (s Story) Current() (Generation, bool) {
	if len(s.Generations) == 0 {
		return Generation{}, false
	}
	return s.Generations[len(s.Generations)-1], true
}

// Generation is a row with what decisions do not need.
type Generation struct {
	Row
	Destination                 string
	DeadlineZone, DeadlineLocal string
	Payload                     []byte
	// Bound is the address that was found right before an attempt; zero where none was.
	Bound Bound
	// Ended is when a terminal state, or unknown, was entered; zero before.
	Ended time.Time
	// Receipt proves the delivery.
	Receipt *job.Receipt
	// Detail is the evidence of what is quarantined or unknown, and Fingerprint its group.
	Detail, Fingerprint string
	// Asking is how far the asking about an unknown outcome has come.
	Asking Asking
}

// Logged is one event as it is kept.
type Logged struct {
	At         time.Time
	Generation int32
	Record
	// Version is the worker's, Classifier that of the rules, Policy the kind's hash.
	Version, Classifier, Policy string
	// EndsAt is when a lease ends by itself (Lease).
	EndsAt time.Time
}

// RedriveNote is a redrive as it is kept.
type RedriveNote struct {
	At                                   time.Time
	RecoveryKey, Approver, Actor, Reason string
	Predecessor, Successor               int32
	Forced                               bool
	Evidence                             string
}

// ListRequest asks for jobs by their current generation. Zero fields do not filter.
type ListRequest struct {
	// State; empty lists what needs a person: quarantined and unknown.
	State  job.State
	Kind   string
	Reason job.Reason
	Code   job.Code
	// Since leaves out what entered its place in the list before.
	Since time.Time
	// Limit is the most entries of a page; 0 means DefaultListLimit.
	Limit int
	// After is where the page begins: the Next of the page before.
	After ListPlace
}

// DefaultListLimit is the length of a page of a list.
const DefaultListLimit = 50

// ListPlace is a place in a list; the zero ListPlace is its beginning.
type ListPlace struct {
	At  time.Time
	Job int64
}

// Listed is a page of a list, the newest first.
type Listed struct {
	Entries []Entry
	// Next is where the next page begins; zero at the end.
	Next ListPlace
	// Looked is how many rows were looked at, where the list has no index of its own.
	Looked int
}

// Entry is one job of a list.
type Entry struct {
	Job         int64       `json:"job"`
	Kind        string      `json:"kind"`
	Key         string      `json:"key"`
	Generation  int32       `json:"generation"`
	State       job.State   `json:"state"`
	Waiting     job.Waiting `json:"waiting,omitempty"`
	Hold        job.Hold    `json:"hold,omitempty"`
	Reason      job.Reason  `json:"reason,omitempty"`
	Class       job.Class   `json:"class,omitempty"`
	Code        job.Code    `json:"code,omitempty"`
	Attempts    int32       `json:"attempts"`
	Fence       int64       `json:"fence"`
	Fingerprint string      `json:"fingerprint,omitempty"`
	Detail      string      `json:"detail,omitempty"`
	// At is when a quarantined or unknown generation became so; of others, when the
	// generation was made.
	At time.Time `json:"at"`
	// WakeAt is when a scheduled generation goes on.
	WakeAt time.Time `json:"wake_at,omitzero"`
	// ClosesAt is when an unknown outcome is asked about no more.
	ClosesAt time.Time `json:"closes_at,omitzero"`
	Closed   bool      `json:"closed,omitempty"`
	// Lookup is by which means its receiver is asked about it, and Asked how often it was.
	Lookup Means `json:"lookup,omitempty"`
	Asked  int32 `json:"asked,omitempty"`
	// Said is the last answer, asked for at AskedAt.
	Said    job.Said  `json:"said,omitempty"`
	AskedAt time.Time `json:"asked_at,omitzero"`
	// AskAt is when it is asked next.
	AskAt time.Time `json:"ask_at,omitzero"`
	// Cleaned: the rows that were generated for it were removed.
	Cleaned bool `json:"cleaned,omitempty"`
}

// Ask fills in how far the asking about the entry has come.
func (e *Entry) Ask(a Asking) {
	e.Lookup, e.Asked, e.Said, e.AskedAt, e.AskAt = a.Means, a.Times, a.Said, a.AskedAt, a.NextAt
}

// RepeatUntil is the last instant at which an effect in doubt may begin again; zero
// where the generation is not in doubt or its receiver does not dedupe.
func (r Row) RepeatUntil() time.Time {
	if !r.InDoubt() {
		return time.Time{}
	}
	return r.latestRepeat()
}

// NoFrom is the instant from which "it did not happen" may be looked for; zero where the
// generation is not in doubt.
func (r Row) NoFrom() time.Time {
	if !r.InDoubt() {
		return time.Time{}
	}
	return r.DoubtUntil.Add(r.promises().Settle)
}
