// Package channel is the seam between an attempt and the outside world: a
// channel performs one effect and says how certain its end is.
//
// A channel owns the hardest question of its protocol: from which byte on may the
// effect have happened? Before it writes the first byte that could cause the
// effect it calls Effect.Begin, which checks once more that the lease still
// covers the whole limit, that the deadline has not passed and that a repeat is
// still inside the receiver's window. Where Begin refuses, nothing is written and
// the attempt is handed back. After it, every end that the protocol does not
// explicitly call "did not happen" is job.OutcomeUnknown.
//
// To add a channel: implement Channel in a package of its own below this one,
// give it a Config with Validate, and name it where internal/app builds channels.
package channel

import (
	"context"
	"time"

	"duly.dev/duly/pkg/job"
)

// Effect is everything that a channel needs to perform one attempt. It holds no
// fence and no lease: a channel cannot decide about state.
type Effect struct {
	Kind, Key, Subject, Period string
	Destination                string
	Payload                    []byte
	// Generation and Attempt count from 1.
	Generation, Attempt int32
	// EffectKey is the effect key as it goes on the wire (job.WireEffectKey).
	EffectKey string
	// Deadline is the instant from which the effect must not begin; zero is none.
	// DeadlineZone and DeadlineLocal are how the producer put it.
	Deadline                    time.Time
	DeadlineZone, DeadlineLocal string
	// TraceParent is the W3C trace context to pass on, if any.
	TraceParent string
	// Begin is called exactly before the first byte that could cause the effect.
	// An error means: write nothing and return job.NotBegun.
	Begin func() error
}

// Channel performs effects of one kind. It is safe for concurrent use.
type Channel interface {
	// Name is the last part of the effect key, such as "http" or "smtp"; it never
	// changes while generations of the kind exist.
	Name() string
	// Check says whether the channel could use the destination and payload, as a
	// refusal, or nil. It does no I/O; doors call it before they accept a job.
	Check(destination string, payload []byte) *job.Refusal
	// Deliver performs the effect and returns its result. ctx ends at the kind's
	// limit; Deliver returns soon after it. It never panics on what a receiver says.
	Deliver(ctx context.Context, e Effect) job.Result
	// Close ends idle connections.
	Close() error
}
