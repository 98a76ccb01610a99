package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// leasedRow is a generation under its first lease.
func leasedRow(t *testing.T) Row {
	t.Helper()
	row, emissions := Begin(testKind(DefaultPromises(10*time.Second)), now, time.Time{}, now)
	require.Len(t, emissions, 1)
	row.Job = 1
	row, change := Next(row, Event{Name: Lease, Emission: row.Emission, Worker: "w"}, now)
	require.Equal(t, Applied, change.Refused)
	return row
}

// apply decides an event that must be taken.
func apply(t *testing.T, r Row, ev Event, at time.Time) Row {
	t.Helper()
	after, change := Next(r, ev, at)
	require.Equal(t, Applied, change.Refused)
	return after
}

func TestC35ASweepThatComesLateOverwritesNothing(t *testing.T) {
	t.Parallel()
	first := leasedRow(t)
	delivered := apply(t, first, ended(Done, first.Fence, job.Done(nil)), now.Add(time.Second))
	after, change := Next(delivered, Event{Name: LeaseEnded, Fence: first.Fence}, now.Add(time.Minute))
	require.Equal(t, Stale, change.Refused, "it was completed between the look and the update")
	require.True(t, same(delivered, after))

	waits := apply(t, first, ended(NotDone, first.Fence, job.NotDone(job.ClassTransient, job.CodeReceiverBusy, "")), now.Add(time.Second))
	again := apply(t, waits, Event{Name: Lease, Emission: waits.Emission, Worker: "x"}, waits.WakeAt)
	after, change = Next(again, Event{Name: LeaseEnded, Fence: first.Fence}, waits.WakeAt)
	require.Equal(t, Stale, change.Refused, "it was leased again in between")
	require.True(t, same(again, after))
}

func TestC56OnlyWhatIsQuarantinedIsRedrivenAndDoubtOnlyWhenForced(t *testing.T) {
	t.Parallel()
	first := leasedRow(t)
	at := now.Add(time.Minute)
	quarantined := apply(t, first, ended(NotDone, first.Fence, job.NotDone(job.ClassPermanent, job.CodeRejected, "")), at)
	unknown := apply(t, first, ended(MayBeDone, first.Fence, job.MayBeDone(job.CodeTimeout, "")), at)
	delivered := apply(t, first, ended(Done, first.Fence, job.Done(nil)), at)
	cancelled := apply(t, quarantined, Event{Name: Cancel}, at)
	forced := Event{Forced: true, Detail: "their log shows nothing"}
	for name, c := range map[string]struct {
		row  Row
		ev   Event
		want Refusal
	}{
		"quarantined":              {quarantined, Event{}, Applied},
		"unknown":                  {unknown, Event{}, NeedsForce},
		"unknown without evidence": {unknown, Event{Forced: true}, NeedsForce},
		"unknown, not forced":      {unknown, Event{Detail: forced.Detail}, NeedsForce},
		"unknown, forced":          {unknown, forced, Applied},
		"delivered":                {delivered, Event{}, AlreadyDelivered},
		"delivered, forced":        {delivered, forced, AlreadyDelivered},
		"cancelled":                {cancelled, forced, NotEligible},
		"leased":                   {first, forced, NotEligible},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pred, succ, change := Redrive(c.row, c.ev, Correction{}, at)
			require.Equal(t, c.want, change.Refused)
			if c.want != Applied {
				require.True(t, same(c.row, pred))
				return
			}
			require.Empty(t, wrongSuccessor(c.row, pred, succ))
			require.Equal(t, job.Ready, succ.State)
			require.Len(t, change.Emissions, 1)
			_, _, twice := Redrive(pred, c.ev, Correction{}, at)
			require.Equal(t, Stale, twice.Refused, "it has a successor")
			leased := apply(t, succ, Event{Name: Lease, Emission: succ.Emission, Worker: "x"}, at)
			require.Greater(t, leased.Fence, c.row.Fence, "its fence is not one of the older generation's")
			require.EqualValues(t, 1, leased.Attempt)
		})
	}
}

func TestARedriveThatCanOnlyExpireIsRefused(t *testing.T) {
	t.Parallel()
	first := leasedRow(t)
	first.Deadline = now.Add(time.Hour)
	row := apply(t, first, ended(NotDone, first.Fence, job.NotDone(job.ClassPermanent, job.CodeRejected, "")), now.Add(time.Second))
	for name, c := range map[string]struct {
		correction Correction
		at         time.Time
		want       Refusal
	}{
		"in time":                          {Correction{}, now.Add(time.Minute), Applied},
		"after the deadline":               {Correction{}, now.Add(time.Hour), Irrelevant},
		"with a later deadline":            {Correction{Deadline: now.Add(3 * time.Hour)}, now.Add(time.Hour), Applied},
		"beginning after the deadline":     {Correction{NotBefore: now.Add(time.Hour)}, now.Add(time.Minute), Irrelevant},
		"beginning before it":              {Correction{NotBefore: now.Add(30 * time.Minute)}, now.Add(time.Minute), Applied},
		"after the lifetime of the job":    {Correction{Deadline: now.Add(9000 * time.Hour)}, now.Add(7 * 24 * time.Hour), Irrelevant},
		"with a deadline that is past too": {Correction{Deadline: now}, now.Add(time.Minute), Irrelevant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pred, succ, change := Redrive(row, Event{}, c.correction, c.at)
			require.Equal(t, c.want, change.Refused)
			if c.want != Applied {
				require.True(t, same(row, pred))
				require.Zero(t, succ)
			}
		})
	}
}

func TestTheLastPossibleByteOfALeaseThatEndedIsBoundedByLimitAndLeaseTime(t *testing.T) {
	t.Parallel()
	row := leasedRow(t)
	p := row.Kind.Policy
	for name, c := range map[string]struct{ ends, want time.Duration }{
		"its worker was ended early":    {5 * time.Second, 5*time.Second + p.PauseBound},
		"nobody looked for a long time": {time.Hour, p.Limit + p.LeaseTime + p.PauseBound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := apply(t, row, Event{Name: LeaseEnded, Fence: row.Fence}, now.Add(c.ends))
			require.Equal(t, now, after.DoubtSince)
			require.Equal(t, now.Add(c.want), after.DoubtUntil)
		})
	}
}
