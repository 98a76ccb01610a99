package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// lives lets a generation be leased again and again when it has waited, or expire if that
// comes first, with the same end of every attempt, until nothing more is tried. It returns
// the row and the instant.
func lives(t *testing.T, r Row, end func(Row) Event, lasts time.Duration) (Row, time.Time) {
	t.Helper()
	at := now
	for range 1000 {
		if r.State == job.Leased {
			at = at.Add(lasts)
			r = apply(t, r, end(r), at)
			continue
		}
		if r.State != job.Scheduled {
			return r, at
		}
		if over := r.ExpiresAt(); !over.IsZero() && over.Before(r.WakeAt) {
			at = over
			r = apply(t, r, Event{Name: Expire}, at)
			continue
		}
		at = r.WakeAt
		r, _ = Next(r, Event{Name: Lease, Emission: r.Emission, Worker: "w"}, at)
	}
	require.Fail(t, "it is tried for ever", "%+v", r)
	return r, at
}

// G7: whatever fails for ever ends, each bound by itself, and by its name.
func TestG7EveryBoundEndsAGeneration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*Row)
		class    job.Class
		reason   job.Reason
		attempts int32 // 0: as many as come about
		within   time.Duration
	}{
		"attempts": {func(r *Row) { r.Kind.Policy.MaxAttempts = 5 }, job.ClassTransient, job.ReasonAttempts, 5, time.Hour},
		"age": {
			func(r *Row) { r.Kind.Policy.MaxAttempts, r.Kind.Policy.MaxAge = 1000, 2*time.Hour },
			job.ClassTransient, job.ReasonTooOld, 0, 2*time.Hour + time.Minute,
		},
		"lifetime over all generations": {
			func(r *Row) {
				r.Kind.Policy.MaxAttempts, r.Origin = 1000, now.Add(-r.Kind.Policy.MaxLifetime+time.Hour)
			},
			job.ClassTransient, job.ReasonTooOld, 0, time.Hour + time.Minute,
		},
		"deadline": {
			func(r *Row) { r.Kind.Policy.MaxAttempts, r.Deadline = 1000, now.Add(time.Hour) },
			job.ClassTransient, job.ReasonDeadline, 0, time.Hour + time.Minute,
		},
		"unclassified failures": {func(r *Row) { r.Kind.Policy.UnclassifiedCap = 2 }, job.ClassUnclassified, job.ReasonUnclassified, 2, time.Hour},
		"a permanent failure":   {func(*Row) {}, job.ClassPermanent, job.ReasonPermanent, 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := leasedRow(t)
			c.change(&first)
			end, at := lives(t, first, func(r Row) Event {
				return ended(NotDone, r.Fence, job.NotDone(c.class, job.CodeReceiverBusy, ""))
			}, time.Second)
			require.Equal(t, job.Quarantined, end.State)
			require.Equal(t, c.reason, end.Reason)
			require.LessOrEqual(t, at.Sub(now), c.within)
			if c.attempts > 0 {
				require.Equal(t, c.attempts, end.Attempt)
			}
		})
	}
}

// G8: one attempt that may have happened keeps its generation in doubt, whatever comes
// after it: it can end only as delivered or unknown.
func TestG8DoubtSticks(t *testing.T) {
	t.Parallel()
	first := leasedRow(t)
	first.Promises.Window = 2 * time.Hour
	doubtful := apply(t, first, ended(MayBeDone, first.Fence, job.MayBeDone(job.CodeTimeout, "")), now.Add(time.Second))
	require.Equal(t, job.Scheduled, doubtful.State, "the receiver dedupes: it is repeated")
	again := apply(t, doubtful, Event{Name: Lease, Emission: doubtful.Emission, Worker: "x"}, doubtful.WakeAt)

	late := again
	late.Deadline = doubtful.WakeAt.Add(time.Second)
	for name, c := range map[string]struct {
		row  Row
		ev   Event
		want job.State
	}{
		"a permanent failure": {again, ended(NotDone, again.Fence, job.NotDone(job.ClassPermanent, job.CodeRejected, "")), job.Unknown},
		"an unclassified failure": {
			func() Row { r := again; r.Kind.Policy.UnclassifiedCap = 1; return r }(),
			ended(NotDone, again.Fence, job.NotDone(job.ClassUnclassified, "", "")), job.Unknown,
		},
		"the last attempt": {
			func() Row { r := again; r.Kind.Policy.MaxAttempts = 2; return r }(),
			ended(NotDone, again.Fence, job.NotDone(job.ClassTransient, "", "")), job.Unknown,
		},
		"a deadline":                        {late, ended(NotDone, again.Fence, job.NotDone(job.ClassTransient, "", "")), job.Unknown},
		"a cancellation while it waits":     {doubtful, Event{Name: Cancel}, job.Unknown},
		"expiry while it waits":             {func() Row { r := doubtful; r.Deadline = now; return r }(), Event{Name: Expire}, job.Unknown},
		"an answer that came too soon":      {doubtful, Event{Name: AnswerNo, Fence: doubtful.Fence, AskedAt: now}, job.Scheduled},
		"another failure that may pass":     {again, ended(NotDone, again.Fence, job.NotDone(job.ClassTransient, "", "")), job.Scheduled},
		"a success, which alone settles it": {again, ended(Done, again.Fence, job.Done(nil)), job.Delivered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, _ := Next(c.row, c.ev, doubtful.WakeAt.Add(2*time.Second))
			require.Equal(t, c.want, after.State)
			require.Equal(t, c.want != job.Delivered, after.InDoubt())
		})
	}
}

// C65: a handler that takes its whole process down every time. Each crash counts, so it
// ends, and as unknown, since it may have happened.
func TestC65WhatCrashesItsWorkerForEverEnds(t *testing.T) {
	t.Parallel()
	crash := func(r Row) Event { return Event{Name: LeaseEnded, Fence: r.Fence} }
	plain, _ := lives(t, leasedRow(t), crash, 35*time.Second)
	require.Equal(t, job.Unknown, plain.State)
	require.EqualValues(t, 1, plain.Attempt, "it is not repeated where the receiver does not dedupe")

	first := leasedRow(t)
	first.Promises.Window = 1000 * time.Hour
	deduped, _ := lives(t, first, crash, 35*time.Second)
	require.Equal(t, job.Unknown, deduped.State)
	require.Equal(t, first.Kind.Policy.MaxAttempts, deduped.Attempt)
}

// C65: two restarts in a row during one job, each of which hands it back.
func TestC65RestartsBurnNoAttempt(t *testing.T) {
	t.Parallel()
	r := leasedRow(t)
	for restart := range 2 {
		at := now.Add(time.Duration(restart) * time.Second)
		r = apply(t, r, ended(HandedBack, r.Fence, job.NotBegun("draining")), at)
		require.Equal(t, job.Ready, r.State)
		require.Zero(t, r.Attempt)
		r = apply(t, r, Event{Name: Lease, Emission: r.Emission, Worker: "next"}, at)
	}
	require.EqualValues(t, 1, r.Attempt)
	require.EqualValues(t, 3, r.Fence, "each lease had a fence of its own")
}
