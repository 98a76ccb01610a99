package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// transition is one decision in the making.
type transition struct {
	row    Row
	ev     Event
	now    time.Time
	change Change
}

// Next decides what the event makes of the row at the instant now of the ledger's
// clock. It returns the row as it is to be stored, what to append to the events,
// and what to emit; where Change.Refused is set the row is unchanged, and nothing
// is recorded or emitted.
func Next(row Row, ev Event, now time.Time) (Row, Change) {
	return table.next(row, ev, now)
}

func (cells transitions) next(row Row, ev Event, now time.Time) (Row, Change) {
	t := transition{row: row, ev: ev, now: now}
	switch c, ok := cells[ev.Name][row.State]; {
	case t.copied():
		t.refuse(Stale)
	case ok && row.Current():
		c.do(&t)
	default:
		t.unlisted()
	}
	if t.change.Refused != Applied {
		return row, t.change
	}
	return t.row, t.change
}

// copied reports whether a worker repeats what it has said already of the newest
// lease. A success behind another end is none: it is late, and the best news.
func (t *transition) copied() bool {
	said := t.row.Reported && t.mine()
	switch t.ev.Name {
	case HandedBack, NotDone, MayBeDone:
		return said
	case Done:
		return said && t.row.State == job.Delivered
	case Due, Lost, Lease, Hold, LeaseEnded, AnswerYes, AnswerNo, Expire, Close, Cancel, Redriven, Replaced:
	}
	return false
}

// unlisted handles what changes nothing: an event in a state that the table does
// not list, or for a generation that has a successor. What a worker says of its
// attempt, and a "yes", are evidence and kept; everything else is refused.
func (t *transition) unlisted() {
	switch t.ev.Name {
	case Done, NotDone, MayBeDone:
		t.evidence()
	case AnswerYes:
		t.kept()
	case Cancel, Redriven:
		t.refuse(NotEligible)
		if !t.row.Current() {
			t.refuse(Stale)
		}
	case Due, Lost, Lease, Hold, HandedBack, LeaseEnded, AnswerNo, Expire, Close, Replaced:
		t.refuse(Stale)
	}
}

func (t *transition) refuse(why Refusal) { t.change = Change{Refused: why} }

// to moves the row into a state and records the event. Fields that belong to the
// state that is left are cleared.
func (t *transition) to(state job.State, why string) {
	from := t.row.State
	t.row.State = state
	t.row.Waiting, t.row.Hold, t.row.WakeAt = "", "", time.Time{}
	if state != job.Quarantined && state != job.Unknown {
		t.row.Reason = ""
	}
	if state != job.Unknown {
		t.row.Closed = false
	}
	t.append(from, why)
}

// append records the event with what the row has become.
func (t *transition) append(from job.State, why string) {
	res := t.ev.Result
	t.change.Record = &Record{
		Name: t.ev.Name, From: from, To: t.row.State,
		Attempt: t.row.Attempt, Fence: t.fence(), Emission: t.row.Emission,
		Outcome: res.Outcome, Class: res.Class, Code: res.Code, Receipt: res.Receipt,
		WakeAt: t.row.WakeAt, Why: why, Detail: t.detail(), Worker: t.worker(), Actor: t.ev.Actor,
	}
}

// record keeps evidence that changes nothing.
func (t *transition) record() {
	t.append(t.row.State, "evidence")
	t.change.Record.Late = true
}

// evidence keeps what a worker says of an attempt whose lease is over.
func (t *transition) evidence() {
	if !t.leasedOnce() {
		t.refuse(Stale)
		return
	}
	if t.mine() && t.row.Current() && t.row.State != job.Cancelled {
		t.row.Reported = true
	}
	t.record()
}

// kept keeps a "yes" that changes nothing.
func (t *transition) kept() {
	if t.answerable() {
		t.record()
	}
}

// leasedOnce reports whether the event's fence can be that of a lease of this generation.
func (t *transition) leasedOnce() bool {
	return t.ev.Fence > 0 && t.ev.Fence <= t.row.Fence && !t.row.LeasedAt.IsZero()
}

func (t *transition) fence() int64 {
	if t.ev.Fence != 0 {
		return t.ev.Fence
	}
	return t.row.Fence
}

// worker is whose lease the event speaks of, which is how that is found: a process
// that registered anew reports what it had leased under its old id.
func (t *transition) worker() string {
	if t.ev.Worker != "" && t.mine() {
		return t.row.Worker
	}
	return t.ev.Worker
}

func (t *transition) detail() string {
	if t.ev.Detail != "" {
		return t.ev.Detail
	}
	return t.ev.Result.Detail
}

// emit gives the row its next emission.
func (t *transition) emit(at time.Time) {
	t.row.Emission++
	t.change.Emissions = append(t.change.Emissions, Emission{Number: t.row.Emission, At: at})
	if t.change.Record != nil {
		t.change.Record.Emission = t.row.Emission
	}
}

// announce emits the dead notice, once a generation.
func (t *transition) announce() {
	if !t.row.Announced {
		t.row.Announced = true
		t.change.Emissions = append(t.change.Emissions, Emission{Dead: true})
	}
}

// ready makes the row ready together with an emission.
func (t *transition) ready(why string) {
	if t.row.FirstReady.IsZero() {
		t.row.FirstReady = t.now
	}
	if t.row.Origin.IsZero() {
		t.row.Origin = t.now
	}
	t.to(job.Ready, why)
	t.emit(time.Time{})
}

// retry schedules the next attempt together with its delayed emission.
func (t *transition) retry() {
	at, why := t.row.retryAt(t.ev.Result.RetryAfter, t.now)
	t.to(job.Scheduled, why)
	t.row.Waiting, t.row.WakeAt = job.WaitingRetry, at
	t.change.Record.WakeAt = at
	t.emit(at)
}

// quarantine ends the generation, which is not in doubt.
func (t *transition) quarantine(reason job.Reason) {
	t.to(job.Quarantined, string(reason))
	t.row.Reason = reason
	t.announce()
}

// unknown ends the generation, which is in doubt; note is what ended it.
func (t *transition) unknown(note job.Reason, why string) {
	t.to(job.Unknown, why)
	t.row.Reason = note
	if t.row.PersonOnly() {
		t.announce()
	}
}

// deliver ends the generation well and settles every doubt.
func (t *transition) deliver(why string) {
	t.to(job.Delivered, why)
	t.row.DoubtSince, t.row.DoubtUntil = time.Time{}, time.Time{}
	t.row.LastClass, t.row.LastCode = "", ""
}
