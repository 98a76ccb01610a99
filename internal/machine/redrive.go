package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Correction is what a redrive may change: only the deadline decides anything
// here; payload and destination are the ledger's to store.
type Correction struct {
	// Deadline replaces the job's when it is not zero.
	Deadline time.Time
	// NotBefore delays the successor's first attempt when it is after now.
	NotBefore time.Time
}

// Redrive decides a redrive of the current generation: the predecessor with its
// successor named, the successor, and what to record and emit. The successor's
// emissions are in the change; fence and emission numbers continue, the attempt
// count and every doubt begin anew, since the old effect key stays with the old
// generation as evidence.
func Redrive(row Row, ev Event, c Correction, now time.Time) (pred, succ Row, change Change) {
	ev.Name = Redriven
	pred, change = Next(row, ev, now)
	if change.Refused != Applied {
		return row, Row{}, change
	}
	t := transition{now: now, ev: ev, row: Row{
		Job: row.Job, Generation: pred.Successor, Kind: row.Kind, State: job.Scheduled, Waiting: job.WaitingDue,
		Fence: row.Fence, Emission: row.Emission, Created: now, Origin: row.Origin,
		Due: latestOf(now, c.NotBefore), WakeAt: latestOf(now, c.NotBefore), Deadline: row.Deadline,
	}}
	if !c.Deadline.IsZero() {
		t.row.Deadline = c.Deadline
	}
	if t.row.Expired(latestOf(now, c.NotBefore)) != "" {
		return row, Row{}, Change{Refused: Irrelevant}
	}
	if !c.NotBefore.After(now) {
		t.ready("redriven")
	}
	change.Emissions = t.change.Emissions
	return pred, t.row, change
}
