package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// promote answers Due.
func (t *transition) promote() {
	switch {
	case t.expireFirst():
	case t.now.Before(t.row.PromoteAt()):
		t.refuse(Early)
	default:
		t.ready(string(t.row.Waiting))
	}
}

// emitAgain answers Lost: the row was ready at an emission that the bus lost.
func (t *transition) emitAgain() {
	switch {
	case t.ev.Emission != t.row.Emission:
		t.refuse(Stale)
	case t.expireFirst():
	default:
		t.append(job.Ready, "lost")
		t.emit(time.Time{})
	}
}

func (t *transition) leaseRetry() {
	switch {
	case t.row.Waiting != job.WaitingRetry || t.ev.Emission != t.row.Emission:
		t.refuse(Stale)
	case t.now.Before(t.row.WakeAt):
		t.refuse(Early)
	default:
		t.lease()
	}
}

// lease counts an attempt under a new fence. The first attempt of a generation
// fixes its channel and its receiver's promises.
func (t *transition) lease() {
	switch {
	case t.ev.Emission != t.row.Emission:
		t.refuse(Stale)
		return
	case t.expireFirst():
		return
	}
	if !t.row.Fixed {
		t.row.Fixed, t.row.Channel, t.row.Promises = true, t.row.Kind.Channel, t.row.Kind.Promises
	}
	t.row.Attempt++
	t.row.Fence++
	t.row.Reported = false
	t.row.Worker, t.row.LeasedAt, t.row.Limit = t.ev.Worker, t.now, t.row.Kind.Policy.Limit
	t.to(job.Leased, "")
}

// hold makes the generation wait for as long as it may not run. What waits for an
// instant of its own (due later, a retry) is never brought forward by that.
func (t *transition) hold() {
	if t.ev.Emission != 0 && t.ev.Emission != t.row.Emission {
		t.refuse(Stale)
		return
	}
	until := latestOf(latestOf(t.ev.Until, t.now), t.row.Due)
	if t.row.Waiting != job.WaitingHeld {
		until = latestOf(until, t.row.WakeAt)
	}
	from := t.row.State
	t.row.State, t.row.Waiting, t.row.Hold, t.row.WakeAt = job.Scheduled, job.WaitingHeld, t.ev.Hold, until
	t.append(from, string(t.ev.Hold))
}

// expireFirst ends a generation that has expired; nothing else may come before.
func (t *transition) expireFirst() bool {
	if t.row.Expired(t.now) == "" && t.row.Repeatable(t.now) {
		return false
	}
	t.ev = Event{Name: Expire, Actor: t.ev.Actor}
	t.expire()
	return true
}

func (t *transition) expire() {
	reason := t.row.Expired(t.now)
	switch {
	case t.row.InDoubt() && (reason != "" || !t.row.Repeatable(t.now)):
		t.unknown(reason, whyUnknown(reason))
	case reason != "":
		t.quarantine(reason)
	default:
		t.refuse(NotExpired)
	}
}

// whyUnknown says what ended a generation in doubt: a reason that would have
// quarantined it, or that its receiver allows no repeat now.
func whyUnknown(reason job.Reason) string {
	if reason == "" {
		return "not_repeatable"
	}
	return string(reason)
}

func (t *transition) cancel() {
	t.row.CancelRequested = true
	if t.row.InDoubt() {
		t.unknown("", "cancel_requested")
		return
	}
	t.to(job.Cancelled, "cancelled")
}

func (t *transition) requestCancel() {
	t.row.CancelRequested = true
	t.append(t.row.State, "cancel_requested")
}

func (t *transition) refuseDelivered() { t.refuse(AlreadyDelivered) }

// close ends the asking: a person gives up, or resolve_within is over.
func (t *transition) close() {
	switch {
	case t.row.Closed:
		t.refuse(Stale)
	case t.ev.Fence != 0 && !t.answerable():
	case t.ev.Fence == 0 && t.now.Before(t.row.ClosesAt()):
		t.refuse(TooSoon)
	default:
		t.row.Closed = true
		t.append(job.Unknown, "closed")
		t.announce()
	}
}

// answerable reports whether an answer speaks of the newest lease of the generation.
func (t *transition) answerable() bool {
	switch {
	case t.row.LeasedAt.IsZero():
		t.refuse(Unleased)
	case t.ev.Fence != t.row.Fence:
		t.refuse(Stale)
	default:
		return true
	}
	return false
}

func (t *transition) answerYes() {
	if t.answerable() {
		t.deliver("answered")
	}
}

// answerNo settles every doubtful attempt, if it was asked late enough: a receiver
// may go on working for settle after the last possible byte. What ended the
// generation while it was in doubt ends it still.
func (t *transition) answerNo() {
	switch {
	case !t.answerable():
	case t.asked().Before(t.row.DoubtUntil.Add(t.row.promises().Settle)):
		t.refuse(TooSoon)
	default:
		t.row.DoubtSince, t.row.DoubtUntil = time.Time{}, time.Time{}
		t.end(t.boundAfterNo())
	}
}

// boundAfterNo is what forbids another attempt once doubt is settled by a "no".
func (t *transition) boundAfterNo() job.Reason {
	if t.row.Closed {
		return job.ReasonTooOld
	}
	if reason := t.bound(); reason != "" {
		return reason
	}
	return t.row.Reason
}

// asked is when an answer was asked; nobody asked in the future.
func (t *transition) asked() time.Time {
	if t.ev.AskedAt.After(t.now) {
		return t.now
	}
	return t.ev.AskedAt
}

// succeed answers Redriven on the predecessor; Redrive makes the successor.
func (t *transition) succeed() {
	if t.row.State == job.Unknown && (!t.ev.Forced || t.ev.Detail == "") {
		t.refuse(NeedsForce)
		return
	}
	t.row.Successor = t.row.Generation + 1
	t.append(t.row.State, "redriven")
}
