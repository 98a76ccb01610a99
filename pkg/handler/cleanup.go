package handler

import (
	"context"

	"duly.dev/duly/pkg/job"
)

// Cleanup removes what was generated for a job that is over: the rows, files or messages
// that its handler needed and nobody needs any more. It stands beside the handler (see
// WithCleanup), and the kind declares it in duly.yaml: `cleanup: {go: {}}`.
//
// It is called only behind the end of the job, when the kind's gate is open, and again
// later where it returned an error: after the delays of the kind, until max_tries or
// max_age is reached; then a person decides. It must be idempotent: where a worker is lost
// before it could say that it was done, it is called again for the same key. It must
// remove only what belongs to the key.
//
// The context ends at the cleanup's timeout. It is called by many goroutines at once, and
// in any worker.
type Cleanup func(ctx context.Context, e Ended) error

// Ended is a job that is over.
type Ended struct {
	// Kind and Key identify the job; Subject is whom it is about, Period the occurrence
	// that it belongs to.
	Kind, Key, Subject, Period string
	// Generation counts the redrives, from 1.
	Generation int32
	// State is how it ended: delivered; or quarantined, cancelled or unknown, as long ago as
	// the kind's cleanup waits for those.
	State job.State
}

// WithCleanup is the handler with a cleanup beside it.
func WithCleanup(h Handler, c Cleanup) Handler {
	b := besides(h)
	b.cleanup = c
	return b
}

// CleanupOf returns the cleanup beside a handler; nil where there is none.
func CleanupOf(h Handler) Cleanup { return besides(h).cleanup }
