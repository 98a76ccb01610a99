package machine

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// minDelay keeps a retry from coming back in the same instant.
const minDelay = time.Millisecond

// Delay is how long a generation waits after its n-th attempt (from 1):
// min(cap, base·2^(n-1)), then uniform in [1-jitter, 1] of it. chance in [0, 1)
// is where in that span. It is never below a millisecond and never over the cap,
// whatever n is.
func (p Policy) Delay(n int32, chance float64) time.Duration {
	full := p.Cap
	if shift := n - 1; shift < 62 {
		shift = max(shift, 0)
		if d := p.Base << shift; d>>shift == p.Base && d > 0 && d < p.Cap {
			full = d
		}
	}
	d := time.Duration(float64(full) * (1 - p.Jitter*(1-chance)))
	return min(max(d, minDelay), max(p.Cap, minDelay))
}

// chance draws from the identity of an attempt: the same attempt always waits the
// same, two jobs do not wait together.
func (r Row) chance() float64 { return r.chanceOf(r.Attempt) }

// chanceOf draws for the n-th of the generation's attempts, or, below zero, of its asks.
func (r Row) chanceOf(n int32) float64 {
	h := fnv.New64a()
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(r.Job))          //nolint:gosec // a hash takes any bits
	binary.BigEndian.PutUint32(b[8:12], uint32(r.Generation)) //nolint:gosec // as above
	binary.BigEndian.PutUint32(b[12:], uint32(n))             //nolint:gosec // as above
	_, _ = h.Write(b[:])                                      // a hash does not fail
	x := h.Sum64()
	// FNV mixes its low bits poorly for short input; one round of a finaliser does.
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// retryAt is when the next attempt may begin and how that came about. It assumes
// that a repeat is allowed, so that a wait that the receiver asked for ends before
// the deadline.
func (r Row) retryAt(retryAfter time.Duration, now time.Time) (time.Time, string) {
	p := r.Kind.Policy
	at, why := now.Add(p.Delay(r.Attempt, r.chance())), "backoff"
	if last := latestOf(now, r.Deadline.Add(-p.Limit)); !r.Deadline.IsZero() && at.After(last) {
		at, why = last, "deadline"
	}
	if asked := now.Add(min(retryAfter, p.Cap)); asked.After(at) {
		at, why = asked, "retry_after"
	}
	if r.InDoubt() {
		// Half of what is left of the window is kept for the queue before the worker.
		if last := now.Add(r.latestRepeat().Sub(now) / 2); at.After(last) {
			at, why = latestOf(now, last), "window"
		}
	}
	return at.Truncate(time.Microsecond), why // as exact as a ledger's clock
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
