package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"duly.dev/duly/pkg/job"
)

// The types of this file are what a person's tools and a ledger hand each other:
// redrives, answers and cancellations.

// RedriveRequest is a person's decision to open the next generation of a job.
type RedriveRequest struct {
	Kind, Key string
	// Generation is the one that the person saw; it must be the current one.
	Generation int32
	// RecoveryKey names this decision within its job: asked again, however often and
	// concurrently, it is answered with the generation that it made.
	RecoveryKey string
	// Approver allowed it, Actor asks for it, Reason says why.
	Approver, Actor, Reason string
	// Destination and Payload replace the generation's where they are not empty.
	Destination string
	Payload     []byte
	Correction
	// DeadlineZone and DeadlineLocal produced a corrected Deadline, for people.
	DeadlineZone, DeadlineLocal string
	// Forced: the outcome may be unknown; Evidence says why it is sent again all the same.
	Forced   bool
	Evidence string
}

// RecoveryHash identifies the recovery key within its job.
func (r RedriveRequest) RecoveryHash() job.Hash {
	sum := sha256.Sum256([]byte(r.RecoveryKey))
	return job.Hash(sum[:16])
}

// Hash is the digest of what makes two redrives with one recovery key the same: the
// generation and the corrections.
func (r RedriveRequest) Hash() job.Hash {
	h := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v)) //nolint:gosec // two's complement is what is wanted here
		h.Write(n[:])
	}
	text := func(b []byte) {
		number(int64(len(b)))
		h.Write(b)
	}
	instant := func(t time.Time) {
		if t.IsZero() {
			text(nil)
			return
		}
		number(8)
		number(t.UnixMicro())
	}
	number(int64(r.Generation))
	text([]byte(r.Destination))
	text(r.Payload)
	instant(r.Deadline)
	instant(r.NotBefore)
	return job.Hash(h.Sum(nil)[:16])
}

// Event is the event of the request for the predecessor.
func (r RedriveRequest) Event() Event {
	detail := r.Reason
	if r.Forced {
		detail = r.Evidence
	}
	return Event{Name: Redriven, Forced: r.Forced, Detail: detail, Approver: r.Approver, Actor: r.Actor}
}

// Successor is the generation that a redrive made.
type Successor struct {
	Job        int64 `json:"job"`
	Generation int32 `json:"generation"`
	// State is where it stands now, and Starts when its first attempt may begin while
	// it is scheduled.
	State  job.State `json:"state"`
	Starts time.Time `json:"starts,omitzero"`
	// Again: the recovery key had made it before; nothing was changed now.
	Again bool `json:"again"`
}

// Verdict is what a person says about an effect.
type Verdict string

const (
	// VerdictDelivered: it happened.
	VerdictDelivered Verdict = "delivered"
	// VerdictNotDelivered: it did not happen.
	VerdictNotDelivered Verdict = "not-delivered"
	// VerdictGiveUp: nobody will ever know; it is asked about no more.
	VerdictGiveUp Verdict = "give-up"
)

// Verdicts lists every verdict.
func Verdicts() []Verdict { return []Verdict{VerdictDelivered, VerdictNotDelivered, VerdictGiveUp} }

// Answer is a person's word about the attempts of a job's current generation.
type Answer struct {
	Kind, Key string
	// Fence is the newest one of the generation, as the person saw it: the answer
	// speaks of every attempt up to it and of none that began later.
	Fence    int64
	Verdict  Verdict
	Evidence string
	// LookedAt is when the person looked; zero is now. "Not delivered" counts only if
	// it was looked for late enough.
	LookedAt time.Time
	Actor    string
}

// Event is the event of the answer. A zero LookedAt becomes an instant that the
// machine cuts to the ledger's clock.
func (a Answer) Event() Event {
	names := map[Verdict]Name{VerdictDelivered: AnswerYes, VerdictNotDelivered: AnswerNo, VerdictGiveUp: Close}
	asked := a.LookedAt
	if asked.IsZero() {
		asked = time.Unix(1<<40, 0)
	}
	return Event{Name: names[a.Verdict], Fence: a.Fence, AskedAt: asked, Detail: a.Evidence, Actor: a.Actor}
}

// Cancellation withdraws a job.
type Cancellation struct{ Kind, Key, Actor, Reason string }

// Event is the event of the cancellation.
func (c Cancellation) Event() Event { return Event{Name: Cancel, Detail: c.Reason, Actor: c.Actor} }

// Standing is where the current generation of a job stands after a person's act.
type Standing struct {
	Job        int64     `json:"job"`
	Generation int32     `json:"generation"`
	State      job.State `json:"state"`
	// Requested: a cancellation is noted, and takes effect once the running attempt
	// has ended or the doubt is settled.
	Requested bool `json:"cancel_requested,omitempty"`
	// Closed: it is asked about no more.
	Closed bool `json:"closed,omitempty"`
	// WakeAt is when it goes on by itself, while it is scheduled.
	WakeAt time.Time `json:"wake_at,omitzero"`
	// Again: it stood there before; nothing was changed now.
	Again bool `json:"again,omitempty"`
}

// StandingOf tells where a row stands.
func StandingOf(r Row) Standing {
	return Standing{Job: r.Job, Generation: r.Generation, State: r.State, Requested: r.CancelRequested && r.State != job.Cancelled, Closed: r.Closed, WakeAt: r.WakeAt}
}
