// Package handler is what authors of Go handlers import: a handler performs the
// effect of one job and says how certain its end is.
//
// A job may be tried many times, but its effect must happen at most once. Duly can
// promise that only if a handler is honest about one question: when it fails, is it
// certain that nothing happened? So an error says by default that the effect may
// have happened. It is repeated only where the kind's receiver dedupes on the effect
// key, and otherwise shown to a person. Say it where you know better:
//
//   - nil: it happened. Receipt keeps the receiver's own id as the proof.
//   - NotDone, RetryAfter: it did not happen, and is tried again later.
//   - Permanent: it did not happen, and the same input would fail again.
//   - any other error, a panic, the end of the context: nobody knows.
//
// The context ends at the kind's limit, and sooner when the worker loses its lease:
// after that somebody else may be trying the same job. Stop then, and send
// Job.EffectKey to the receiver as its idempotency key, so that it can tell a
// repeat from a second job.
//
// What may have happened need not stay a question for a person: a Lookup beside the
// handler asks the receiver. A Cleanup beside it removes what was generated for a job, and
// a Resolve says where its effect goes now.
//
// The text of an error is kept with the attempt and shown to operators. Do not put
// payloads, credentials or message contents into it.
package handler

import (
	"context"
	"encoding/json"
	"time"
)

// Job is one attempt of a job, as its handler sees it.
type Job struct {
	// Kind and Key identify the job; Subject is whom it is about, Period the occurrence
	// that it belongs to.
	Kind, Key, Subject, Period string
	// Destination is the address of the effect: the one that the producer gave, if any, or,
	// of a kind with a resolve, the one that this has found.
	Destination string
	// Payload is one JSON value, byte for byte as the producer gave it.
	Payload json.RawMessage
	// Generation counts the redrives and Attempt the tries of this generation, both
	// from 1.
	Generation, Attempt int32
	// EffectKey identifies the effect over all attempts of the generation: plain
	// ASCII, at most 200 bytes. A receiver that dedupes does so on this.
	EffectKey string
	// Deadline is the instant from which the effect must not begin any more; zero where
	// there is none. DeadlineZone and DeadlineLocal are how the producer put it.
	Deadline                    time.Time
	DeadlineZone, DeadlineLocal string
	// TraceParent is the W3C trace context of the attempt, if any. The context carries
	// it too.
	TraceParent string
}

// Handler performs the effects of the jobs of a kind. It is called by many
// goroutines at once.
type Handler interface {
	// Handle performs the effect of one job. What it returns says how certain its end
	// is: see the package comment.
	Handle(ctx context.Context, j Job) error
}

// Func is a function that is a Handler.
type Func func(ctx context.Context, j Job) error

// Handle calls the function.
func (f Func) Handle(ctx context.Context, j Job) error { return f(ctx, j) }
