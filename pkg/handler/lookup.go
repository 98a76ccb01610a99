package handler

import (
	"context"

	"duly.dev/duly/pkg/job"
)

// Lookup asks the receiver of a handler what became of an effect that may have happened,
// so that nobody has to. It stands beside the handler (see WithLookup), and the kind
// declares it in duly.yaml: `promises: {lookup: {go: {}}}`.
//
// It returns Happened, DidNotHappen or StillWorking, or an error where it does not know:
// then it is asked again later. DidNotHappen is believed, and the effect may be performed
// again: say it only where the receiver itself has said so about this effect key. A
// connection that fails, and a search index that lags, know nothing.
//
// The context ends at the lookup's timeout. It is called by many goroutines at once, and
// in any worker, not only in the one that made the attempt.
type Lookup func(ctx context.Context, q Question) (Answer, error)

// Question is what a receiver is asked about one effect.
type Question struct {
	// EffectKey is what the handler sent the effect under: Job.EffectKey.
	EffectKey string
	// Kind and Key identify the job; Subject is whom it is about, Period the occurrence
	// that it belongs to.
	Kind, Key, Subject, Period string
	// Destination is the address of the effect, if the producer gave one.
	Destination string
	// Generation counts the redrives, from 1.
	Generation int32
}

// Answer is what a receiver said. The zero Answer says nothing.
type Answer struct {
	said    job.Said
	receipt string
}

// Happened says that the effect happened. The receiver's own id of it, which may be
// empty, is kept as the proof.
func Happened(receipt string) Answer { return Answer{job.SaidYes, receipt} }

// DidNotHappen says that the effect did not happen.
func DidNotHappen() Answer { return Answer{said: job.SaidNo} }

// StillWorking says that the receiver has not finished: it is asked again later.
func StillWorking() Answer { return Answer{said: job.SaidWorking} }

// Said returns what was said, and the receipt of an effect that happened. Workers and test
// kits use it.
func (a Answer) Said() (said job.Said, receipt string) {
	if a.said == "" {
		return job.SaidNothing, ""
	}
	return a.said, a.receipt
}

// WithLookup is the handler with a lookup beside it.
func WithLookup(h Handler, l Lookup) Handler {
	b := besides(h)
	b.lookup = l
	return b
}

// LookupOf returns the lookup beside a handler; nil where there is none.
func LookupOf(h Handler) Lookup { return besides(h).lookup }
