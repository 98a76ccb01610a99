package machine

import (
	"slices"
	"time"

	"duly.dev/duly/pkg/job"
)

// leads says to which states each event can lead, under any policy.
var leads = map[Name][]job.State{
	Due:        {job.Ready},
	Lost:       {job.Ready},
	Lease:      {job.Leased},
	Hold:       {job.Scheduled},
	HandedBack: {job.Ready, job.Quarantined, job.Cancelled, job.Unknown},
	Done:       {job.Delivered},
	NotDone:    {job.Scheduled, job.Quarantined, job.Cancelled, job.Unknown},
	MayBeDone:  {job.Scheduled, job.Unknown},
	LeaseEnded: {job.Scheduled, job.Unknown},
	AnswerYes:  {job.Delivered},
	AnswerNo:   {job.Scheduled, job.Quarantined, job.Cancelled},
	Expire:     {job.Quarantined, job.Unknown},
	Close:      {job.Unknown},
	Cancel:     {job.Cancelled, job.Unknown, job.Leased},
	Redriven:   {job.Unknown, job.Quarantined},
	Replaced:   {job.Scheduled, job.Ready},
}

// follow folds an event that was decided under a policy which is not known: it takes
// over what was decided, and compares what no policy decides.
func (f *folder) follow(e Logged) {
	row := f.row
	var d differences
	d.add("from", string(e.From), string(row.State))
	if e.Late && e.From == e.To {
		row.Reported = row.Reported || e.Fence == row.Fence
	} else {
		f.advance(e, &row, &d)
	}
	d.add("attempt", number(e.Attempt), number(row.Attempt))
	d.add("emission", number(e.Emission), number(row.Emission))
	if e.Fence > row.Fence || !e.Late && e.Fence != row.Fence {
		d.add("fence", number(e.Fence), number(row.Fence))
	}
	if !d.none() {
		stored, folded := d.texts()
		f.breaks(RuleEvent, describe(e)+": "+stored, folded)
		return
	}
	f.accept(row)
}

// advance moves the row as the event says, if the table has such a change.
func (f *folder) advance(e Logged, row *Row, d *differences) {
	_, listed := table[e.Name][row.State]
	if !listed && e.Name != Replaced || !slices.Contains(leads[e.Name], e.To) {
		d.add("to", string(e.To), "refused in "+string(row.State))
	}
	row.State, row.WakeAt, row.Waiting, row.Hold = e.To, e.WakeAt, "", ""
	if e.To == job.Scheduled {
		row.Waiting = job.WaitingRetry
	}
	if e.To != e.From {
		row.Reason = reasonOf(e)
	}
	row.Closed = e.To == job.Unknown && row.Closed
	switch e.Name {
	case HandedBack:
		row.Attempt--
	case Hold:
		row.Waiting, row.Hold = job.WaitingHeld, job.Hold(e.Why)
	case Cancel:
		row.CancelRequested = true
	case Close:
		row.Closed = true
	case Redriven:
		row.Successor = row.Generation + 1
	case Replaced:
		switch {
		case f.staysHeld(e):
			row.Waiting, row.Hold = f.row.Waiting, f.row.Hold
		case e.To == job.Scheduled:
			row.Waiting = job.WaitingDue
		}
	default: // moves no more than the state
	}
	row.Emission += emits(e, f.row)
}

// reasonOf is the reason for which the generation ended; empty where there is none.
func reasonOf(e Logged) job.Reason {
	r := job.Reason(e.Why)
	if (e.To == job.Quarantined || e.To == job.Unknown) && slices.Contains(job.Reasons(), r) {
		return r
	}
	return ""
}

// emits is how many emissions of work the event writes.
func emits(e Logged, before Row) int32 {
	switch {
	case e.Name == Hold:
		return 0
	case e.Name == Replaced && before.State == job.Ready:
		return 0
	case e.To == job.Ready, e.To == job.Scheduled && e.Name != Replaced:
		return 1
	}
	return 0
}

// looseLease is the row once it was leased; as it was, where it cannot have been.
func (f *folder) looseLease(l Logged) Row {
	row := f.row
	if row.State != job.Ready && row.State != job.Scheduled {
		return row
	}
	row.State, row.Waiting, row.Hold, row.Reason, row.WakeAt = job.Leased, "", "", "", time.Time{}
	row.Attempt++
	row.Fence++
	row.Worker, row.LeasedAt, row.Reported = l.Worker, l.At, false
	return row
}
