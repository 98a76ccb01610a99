package handler

import "context"

// Resolve says where the effects of jobs go now, so that a customer who moved since the
// job was made is reached at the new address. It stands beside the handler (see
// WithResolve), and the kind declares it in duly.yaml: `resolve: {go: {}}`.
//
// It is asked right before an attempt, about all jobs that are there at the same time,
// and returns one address for each, in their order. An empty one says that there is
// none: the job is quarantined (DESTINATION_INVALID), and did not happen. An error says
// that nobody knows now: the jobs did not happen, and are tried again later; with
// Permanent they are not, and RetryAfter says when.
//
// An attempt that may have happened keeps its address: whatever repeats it goes there
// again, and Resolve is not asked.
//
// The context ends at the timeout of the kind's resolve. It is called by many goroutines
// at once.
type Resolve func(ctx context.Context, jobs []Addressee) ([]string, error)

// Addressee is a job whose address is asked for.
type Addressee struct {
	// Kind and Key identify the job; Subject is whom it is about, Period the occurrence
	// that it belongs to.
	Kind, Key, Subject, Period string
	// Destination is the address that the producer gave, if any.
	Destination string
	// Generation counts the redrives, from 1.
	Generation int32
}

// WithResolve is the handler with a resolve beside it.
func WithResolve(h Handler, r Resolve) Handler {
	b := besides(h)
	b.resolve = r
	return b
}

// ResolveOf returns the resolve beside a handler; nil where there is none.
func ResolveOf(h Handler) Resolve { return besides(h).resolve }
