package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// mine reports whether the event speaks of the lease that is running.
func (t *transition) mine() bool { return t.ev.Fence == t.row.Fence }

func (t *transition) done() {
	if !t.mine() {
		t.doneLate()
		return
	}
	t.row.Reported = true
	t.deliver("")
}

// doneLate takes the word of a worker whose lease is over: it happened.
func (t *transition) doneLate() {
	if !t.leasedOnce() {
		t.refuse(Stale)
		return
	}
	t.row.Reported = t.row.Reported || t.mine()
	t.deliver("late_success")
	t.change.Record.Late = true
}

// handBack takes back an attempt that never began, and its number.
func (t *transition) handBack() {
	if !t.mine() {
		t.unlisted()
		return
	}
	t.row.Attempt--
	t.row.Reported = true
	if !t.ended(t.bound()) {
		t.ready("handed_back")
	}
}

func (t *transition) notDone() {
	if !t.mine() {
		t.unlisted()
		return
	}
	t.row.Reported = true
	res := t.ev.Result
	t.row.LastClass, t.row.LastCode = res.Class, res.Code
	if res.Class == job.ClassUnclassified {
		t.row.Unclassified++
	}
	t.end(t.bound())
}

// mayBeDone puts the generation in doubt, from the lease of this attempt if it is
// the first doubtful one, until the last byte that it could have written.
func (t *transition) mayBeDone() {
	if !t.mine() {
		t.unlisted()
		return
	}
	t.row.Reported = t.ev.Name != LeaseEnded
	t.row.LastClass, t.row.LastCode = "", t.ev.Result.Code
	if t.ev.Name == LeaseEnded {
		t.row.LastCode = job.CodeLeaseEnded
		t.ev.Result = job.MayBeDone(job.CodeLeaseEnded, t.ev.Detail)
		t.ev.Worker = t.row.Worker
	}
	if t.row.DoubtSince.IsZero() {
		t.row.DoubtSince = t.row.LeasedAt
	}
	t.row.DoubtUntil = latestOf(t.row.DoubtUntil, t.lastByte())
	t.end(t.bound())
}

// lastByte is the last instant at which a byte of the attempt can have been
// written. The lease has ended by now, and no lease outlives the limit by more
// than one lease time; a paused process may write for the pause bound after that.
func (t *transition) lastByte() time.Time {
	p := t.row.Kind.Policy
	end := t.row.LeasedAt.Add(t.row.Limit + p.LeaseTime)
	if t.now.Before(end) {
		end = t.now
	}
	return end.Add(p.PauseBound)
}

// end decides what follows an attempt, or an answer "no", by the rules of
// DESIGN §3, "The end of an attempt": the first that holds.
func (t *transition) end(bound job.Reason) {
	if !t.ended(bound) {
		t.retry()
	}
}

// ended ends the generation if it must end, and reports whether it did.
func (t *transition) ended(bound job.Reason) bool {
	switch {
	case t.row.InDoubt() && t.row.CancelRequested:
		t.unknown(bound, "cancel_requested")
	case t.row.InDoubt() && (bound != "" || !t.row.Repeatable(t.now)):
		t.unknown(bound, whyUnknown(bound))
	case t.row.InDoubt():
		return false
	case t.row.CancelRequested:
		t.to(job.Cancelled, "cancel_requested")
	case bound != "":
		t.quarantine(bound)
	default:
		return false
	}
	return true
}

// bound is what forbids another attempt; empty when nothing does. An attempt that
// was handed back has no result, so that only time and lowered caps bound it.
func (t *transition) bound() job.Reason {
	if reason := t.row.Expired(t.now); reason != "" {
		return reason
	}
	p, asked := t.row.Kind.Policy, t.ev.Result.RetryAfter
	switch {
	case t.row.LastClass == job.ClassPermanent:
		return job.ReasonPermanent
	case t.row.LastClass == job.ClassUnclassified && t.row.Unclassified >= p.UnclassifiedCap:
		return job.ReasonUnclassified
	case t.row.Attempt >= p.MaxAttempts:
		return job.ReasonAttempts
	case asked > 0 && !t.row.Deadline.IsZero() && !t.now.Add(asked).Before(t.row.Deadline):
		return job.ReasonDeadline
	}
	return ""
}
