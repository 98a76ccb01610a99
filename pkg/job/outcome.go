package job

import "time"

// Outcome says how certain the end of an attempt is. It is decided before the
// class of a failure.
type Outcome string

const (
	// OutcomeDelivered: the effect happened.
	OutcomeDelivered Outcome = "delivered"
	// OutcomeFailed: the effect provably did not happen.
	OutcomeFailed Outcome = "failed"
	// OutcomeUnknown: the effect may have happened.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeNotBegun: the attempt never began and is handed back, uncounted.
	OutcomeNotBegun Outcome = "not_begun"
)

// Class says what a failure means for another try. An unknown outcome has no
// class: an unclassified failure and an unknown outcome are different things.
type Class string

const (
	// ClassTransient: time may repair it.
	ClassTransient Class = "transient"
	// ClassPermanent: the same input fails again.
	ClassPermanent Class = "permanent"
	// ClassUnclassified: no rule matched; it is tried at most unclassified_cap times.
	ClassUnclassified Class = "unclassified"
)

// Classes lists every failure class.
func Classes() []Class { return []Class{ClassTransient, ClassPermanent, ClassUnclassified} }

// Result is what one attempt came to, as the channel or handler states it.
type Result struct {
	// Outcome is the certainty; always set.
	Outcome Outcome
	// Class is set if, and only if, Outcome is OutcomeFailed.
	Class Class
	// Code says what went wrong; empty when delivered.
	Code Code
	// Detail is one short line for a person. It holds no payload, credential or
	// message content; it is made storable and cut to MaxDetail bytes by Storable.
	Detail string
	// RetryAfter is how long the receiver asked to be left alone, as it was sent;
	// zero when it did not say. It counts wherever a retry follows: after a failure, and
	// after an unknown outcome that may be repeated.
	RetryAfter time.Duration
	// Receipt is what the receiver answered; nil when there was no answer.
	Receipt *Receipt
}

// Receipt is what the receiver answered for an effect key. It is kept with the
// delivery as its proof.
type Receipt struct {
	// ID is the receiver's own identifier of the effect, if it gave one.
	ID string `json:"id,omitempty"`
	// Status is the protocol's status, such as "200" or "250 2.0.0".
	Status string `json:"status,omitempty"`
	// To is where the effect went, of a job whose destination was asked for right before it:
	// the address, or, where that is private, ToHash of it.
	To string `json:"to,omitempty"`
	// At is when the answer was read, by the worker's clock; for people only.
	At time.Time `json:"at,omitzero"`
}

// MaxDetail is the longest detail, in bytes, that is stored.
const MaxDetail = 500

// Done is the result of an effect that happened.
func Done(receipt *Receipt) Result {
	return Result{Outcome: OutcomeDelivered, Receipt: receipt}
}

// NotDone is the result of an effect that provably did not happen.
func NotDone(class Class, code Code, detail string) Result {
	return Result{Outcome: OutcomeFailed, Class: class, Code: code, Detail: detail}
}

// MayBeDone is the result of an effect of which nobody here knows whether it happened.
func MayBeDone(code Code, detail string) Result {
	return Result{Outcome: OutcomeUnknown, Code: code, Detail: detail}
}

// NotBegun is the result of an attempt of which no byte was written and no
// handler was called; it is handed back and not counted.
func NotBegun(detail string) Result {
	return Result{Outcome: OutcomeNotBegun, Detail: detail}
}
