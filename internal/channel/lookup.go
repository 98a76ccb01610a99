package channel

import (
	"context"

	"duly.dev/duly/pkg/job"
)

// Inquiry is what a receiver is asked about one effect.
type Inquiry struct {
	Kind, Key, Subject, Period string
	Destination                string
	// Generation counts the redrives, from 1.
	Generation int32
	// EffectKey is the effect key as it went on the wire (job.WireEffectKey).
	EffectKey string
}

// Answer is what came of asking.
type Answer struct {
	Said job.Said
	// Receipt proves a "yes", where the receiver gave one.
	Receipt *job.Receipt
	// Detail is a short line for people, without anything private.
	Detail string
}

// Lookup asks a receiver whether an effect happened. It is safe for concurrent use.
//
// A "no" is believed: the effect may be performed again. So whatever does not surely say
// "it did not happen" is job.SaidWorking or job.SaidNothing: an error, a time-out, an
// answer that no rule matches.
type Lookup interface {
	// Ask asks once. ctx ends when the answer is waited for no longer; Ask returns soon
	// after that.
	Ask(ctx context.Context, q Inquiry) Answer
	// Close ends idle connections.
	Close() error
}

// NoAnswer is the answer that says nothing, and why.
func NoAnswer(why string) Answer { return Answer{Said: job.SaidNothing, Detail: why} }
