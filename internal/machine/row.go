package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Row is one generation of a job: all that decisions are made from. Instants are
// the ledger's; a zero instant means "none". The zero Row is not valid.
type Row struct {
	Job        int64
	Generation int32
	// Kind carries the policy in force for the decision at hand.
	Kind Kind

	State   job.State
	Waiting job.Waiting // why scheduled; else empty
	Hold    job.Hold    // why held; else empty
	// Reason is why quarantined; on an unknown generation it notes what would have
	// quarantined it had it not been in doubt.
	Reason job.Reason

	// Attempt is the number of leases that were not handed back.
	Attempt int32
	// Unclassified counts the unclassified failures among them.
	Unclassified int32
	// Fence grows with every lease of the job and continues over generations.
	Fence int64
	// Emission is the number of the newest emission; it continues over generations.
	Emission int32

	Created time.Time // of this generation
	// Origin is when the job's first generation was first ready; it carries over.
	Origin     time.Time
	FirstReady time.Time
	Due        time.Time
	Deadline   time.Time
	// WakeAt is the instant that a scheduled generation waits for.
	WakeAt time.Time

	Worker   string // who leased it last
	LeasedAt time.Time
	Limit    time.Duration // of the last lease

	// DoubtSince is the lease of the first attempt that may have happened and is not
	// settled; zero when the generation is not in doubt.
	DoubtSince time.Time
	// DoubtUntil is the last possible byte of all doubtful attempts.
	DoubtUntil time.Time

	// Channel and Promises are fixed by the first attempt; before it, Fixed is false
	// and the kind's own count.
	Fixed    bool
	Channel  string
	Promises Promises

	// Pinned: a person has given the destination with a redrive; it is asked for no more.
	Pinned bool

	CancelRequested bool
	// Closed: an unknown outcome that is asked about no more.
	Closed bool
	// Announced: the dead notice of this generation was emitted.
	Announced bool
	// Reported: the worker of the newest lease has said how its attempt ended. What it
	// says again is a copy whose first reply was lost, not evidence.
	Reported bool
	// Successor is the generation that a redrive opened; 0 while this is the current one.
	Successor int32

	LastClass job.Class
	LastCode  job.Code
}

// InDoubt reports whether some attempt of the generation may have happened and
// nobody has settled it.
func (r Row) InDoubt() bool { return !r.DoubtSince.IsZero() }

// Current reports whether the generation is the job's current one.
func (r Row) Current() bool { return r.Successor == 0 }

// promises are those fixed in the generation, or the kind's own before the first attempt.
func (r Row) promises() Promises {
	if r.Fixed {
		return r.Promises
	}
	return r.Kind.Promises
}

// PersonOnly reports whether an unknown outcome of the generation can be settled
// by nobody but a person: its receiver cannot be asked, or is asked no more.
func (r Row) PersonOnly() bool { return r.promises().Lookup == "" || r.Closed }

// Repeatable reports whether another attempt, begun at the instant begin, would
// end, with all that its receiver may do afterwards, inside the window in which the
// receiver dedupes. Only a generation in doubt asks; any other may always repeat.
func (r Row) Repeatable(begin time.Time) bool {
	return !r.InDoubt() || !begin.After(r.latestRepeat())
}

// latestRepeat is the last instant at which a doubtful effect may begin again:
// its last possible byte plus settle must fall within the window of the lease of
// the first doubtful attempt. It is zero where the receiver does not dedupe.
func (r Row) latestRepeat() time.Time {
	p := r.promises()
	if p.Window == 0 {
		return time.Time{}
	}
	return r.DoubtSince.Add(p.Window - p.Settle - r.Kind.Policy.PauseBound - r.Kind.Policy.Limit)
}

// Expired says which bound the generation has passed at the instant now: its
// deadline, its age, or the lifetime of the job; empty when none.
func (r Row) Expired(now time.Time) job.Reason {
	p := r.Kind.Policy
	switch {
	case !r.Deadline.IsZero() && !now.Before(r.Deadline):
		return job.ReasonDeadline
	case !r.FirstReady.IsZero() && !now.Before(r.FirstReady.Add(p.MaxAge)):
		return job.ReasonTooOld
	case !r.Origin.IsZero() && !now.Before(r.Origin.Add(p.MaxLifetime)):
		return job.ReasonTooOld
	}
	return ""
}

// ExpiresAt is the earliest instant at which Expired will name a reason, under the
// policy in force; zero when nothing bounds the generation yet.
func (r Row) ExpiresAt() time.Time {
	var first time.Time
	consider := func(t time.Time) {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	if !r.Deadline.IsZero() {
		consider(r.Deadline)
	}
	if !r.FirstReady.IsZero() {
		consider(r.FirstReady.Add(r.Kind.Policy.MaxAge))
	}
	if !r.Origin.IsZero() {
		consider(r.Origin.Add(r.Kind.Policy.MaxLifetime))
	}
	return first
}

// ClosesAt is the instant from which an unknown outcome is asked about no more;
// zero when the generation is not in doubt.
func (r Row) ClosesAt() time.Time {
	if !r.InDoubt() {
		return time.Time{}
	}
	return r.DoubtSince.Add(r.promises().ResolveWithin)
}

// PromoteAt is the instant from which the scheduler promotes a scheduled
// generation: its wake_at, or, for a retry, RetryGrace later, since the delayed
// emission normally comes first. It is zero for every other state.
func (r Row) PromoteAt() time.Time {
	switch {
	case r.State != job.Scheduled:
		return time.Time{}
	case r.Waiting == job.WaitingRetry:
		return r.WakeAt.Add(RetryGrace)
	}
	return r.WakeAt
}

// RetryGrace is how long the scheduler leaves a retry to its delayed emission.
const RetryGrace = 5 * time.Second
