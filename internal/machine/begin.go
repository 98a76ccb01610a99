package machine

import (
	"time"

	"duly.dev/duly/pkg/job"
)

// Begin makes the first row of a new job: ready with its emission when it is due
// (a zero due time is now), else scheduled until then. The job row itself is the
// first event.
func Begin(kind Kind, due, deadline, now time.Time) (Row, []Emission) {
	if due.IsZero() {
		due = now
	}
	t := transition{now: now, row: Row{
		Generation: 1, Kind: kind, State: job.Scheduled, Waiting: job.WaitingDue,
		Created: now, Due: due, WakeAt: due, Deadline: deadline,
	}}
	if !due.After(now) {
		t.ready("due")
	}
	return t.row, t.change.Emissions
}

// Replace gives a job another body, due time and deadline, as its producer asks,
// as long as no attempt has begun. What is ready and still due keeps its emission,
// since a worker reads the body when it leases; what is held stays so.
func Replace(row Row, due, deadline, now time.Time) (Row, Change) {
	if due.IsZero() {
		due = now
	}
	t := transition{now: now, ev: Event{Name: Replaced}, row: row}
	waits := row.State == job.Scheduled || row.State == job.Ready
	if row.Generation > 1 || row.Attempt > 0 || !row.Current() || !waits {
		return row, Change{Refused: NotEligible}
	}
	t.row.Due, t.row.Deadline = due, deadline
	// What an attempt that was handed back fixed is resolved anew.
	t.row.Fixed, t.row.Channel, t.row.Promises = false, "", Promises{}
	switch {
	case due.After(now):
		t.row.FirstReady, t.row.Origin = time.Time{}, time.Time{}
		t.to(job.Scheduled, "replaced")
		t.row.Waiting, t.row.WakeAt = job.WaitingDue, due
		t.change.Record.WakeAt = due
	case row.State == job.Ready || row.Waiting == job.WaitingHeld:
		t.append(row.State, "replaced")
	default:
		t.ready("replaced")
	}
	return t.row, t.change
}
