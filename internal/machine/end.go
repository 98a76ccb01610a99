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
	t.row.LastClass, t.row.LastCode = "", ""
	t.deliver("")
}

// doneLate takes the word of a worker whose lease is over: it happened.
func (t *transition) doneLate() {
	if t.ev.Fence < 1 || t.ev.Fence > t.row.Fence || t.row.LeasedAt.IsZero() {
		t.refuse(Stale)
		return
	}
	t.deliver("late_success")
	t.change.Record.Late = true
}

// late refuses or records what a worker whose lease is over says but success.
func (t *transition) late() bool {
	if t.mine() {
		return false
	}
	t.unlisted()
	return true
}

func (t *transition) handBack() {
	if t.late() {
		return
	}
	t.row.Attempt--
	if t.ending(false, t.handedBack) {
		return
	}
	t.ready("handed_back")
}

func (t *transition) notDone() {
	if t.late() {
		return
	}
	res := t.ev.Result
	t.row.LastClass, t.row.LastCode = res.Class, res.Code
	if res.Class == job.ClassUnclassified {
		t.row.Unclassified++
	}
	t.end(res.Class == job.ClassPermanent)
}

// mayBeDone puts the generation in doubt, from the lease of this attempt if it is
// the first doubtful one, until the last byte that it could have written.
func (t *transition) mayBeDone() {
	if t.late() {
		return
	}
	t.row.LastClass, t.row.LastCode = "", t.ev.Result.Code
	if t.ev.Name == LeaseEnded {
		t.row.LastCode = job.CodeLeaseEnded
		t.ev.Result = job.MayBeDone(job.CodeLeaseEnded, t.ev.Detail)
	}
	if t.row.DoubtSince.IsZero() {
		t.row.DoubtSince = t.row.LeasedAt
	}
	t.row.DoubtUntil = latestOf(t.row.DoubtUntil, t.lastByte())
	t.end(false)
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
func (t *transition) end(permanent bool) {
	if !t.ending(permanent, t.bound) {
		t.retry()
	}
}

// ending ends the generation if it must end, and reports whether it did.
func (t *transition) ending(permanent bool, bound func(permanent bool) job.Reason) bool {
	reason := bound(permanent)
	switch {
	case t.row.InDoubt() && t.row.CancelRequested:
		t.unknown(reason, "cancel_requested")
	case t.row.InDoubt() && (reason != "" || !t.row.Repeatable(t.now)):
		t.unknown(reason, whyUnknown(reason))
	case t.row.InDoubt():
		return false
	case t.row.CancelRequested:
		t.to(job.Cancelled, "cancel_requested")
	case reason != "":
		t.quarantine(reason)
	default:
		return false
	}
	return true
}

// handedBack is the bound of an attempt that never began: only time ends it.
func (t *transition) handedBack(bool) job.Reason { return t.row.Expired(t.now) }

// bound is what forbids another attempt; empty when nothing does.
func (t *transition) bound(permanent bool) job.Reason {
	if reason := t.row.Expired(t.now); reason != "" {
		return reason
	}
	p, asked := t.row.Kind.Policy, t.ev.Result.RetryAfter
	switch {
	case permanent:
		return job.ReasonPermanent
	case t.row.Unclassified >= p.UnclassifiedCap && t.row.LastClass == job.ClassUnclassified:
		return job.ReasonUnclassified
	case t.row.Attempt >= p.MaxAttempts:
		return job.ReasonAttempts
	case asked > 0 && !t.row.Deadline.IsZero() && !t.now.Add(asked).Before(t.row.Deadline):
		return job.ReasonDeadline
	}
	return ""
}
