package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/ledger"
	"duly.dev/duly/internal/ledger/ledgertest"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func TestOutcomesOfABatchAreSettledEachByItsRule(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("mixed", 6)
	grants := c.ask(c.worker, refs...).Grants
	require.Len(t, grants, 6)
	results := []job.Result{
		job.Done(&job.Receipt{ID: "abc", Status: "200"}),
		job.NotDone(job.ClassTransient, job.CodeGreylisted, "later"),
		job.NotDone(job.ClassPermanent, job.CodeRejected, "never"),
		job.MayBeDone(job.CodeTimeout, "no answer"),
		job.NotBegun("draining"),
		job.NotDone(job.ClassUnclassified, job.CodeUnexpectedAnswer, "?"),
	}
	reports := make([]machine.Report, 6)
	for i := range reports {
		reports[i] = report(grants[i], results[i])
	}
	settled, err := c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	want := []job.State{job.Delivered, job.Scheduled, job.Quarantined, job.Unknown, job.Ready, job.Quarantined}
	for i, s := range settled {
		require.Equal(t, want[i], s.State, "report %d", i)
		require.False(t, s.Late)
		state, attempt, fence := c.state(grants[i].Row.Job)
		require.Equal(t, want[i], state)
		require.EqualValues(t, 1, fence)
		if results[i].Outcome == job.OutcomeNotBegun {
			require.Zero(t, attempt, "what never began burns no attempt")
		} else {
			require.EqualValues(t, 1, attempt)
		}
	}
	require.Equal(t, 6, c.count(`SELECT count(*)::int FROM duly.history WHERE from_state = 'leased' AND worker_version = 'v1' AND policy_hash <> ''`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.job WHERE receipt->>'id' = 'abc' AND state = 'delivered'`))
	require.Equal(t, 3, c.count(`SELECT count(*)::int FROM duly.outbox WHERE topic = '.dead'`), "two quarantined, one unknown that only a person can settle")
	require.Equal(t, 2, c.count(`SELECT count(*)::int FROM duly.quarantine`))
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.unknown`))
}

func TestSettlingTwiceIsSettlingOnce(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	for name, result := range map[string]job.Result{
		"done": job.Done(nil), "retry": job.NotDone(job.ClassTransient, job.CodeUnreachable, ""), "unknown": job.MayBeDone(job.CodeTimeout, ""),
		"handed back": job.NotBegun(""), "quarantined": job.NotDone(job.ClassPermanent, job.CodeRejected, ""),
	} {
		g := c.ask(c.worker, c.enqueue("twice-"+job.Normalise(name), 1)...).Grants[0]
		first := c.settle(g, result)
		events := c.count(`SELECT count(*)::int FROM duly.history WHERE job = $1`, g.Row.Job)
		again := c.settle(g, result)
		require.Equal(t, first.State, again.State, name)
		require.Equal(t, events, c.count(`SELECT count(*)::int FROM duly.history WHERE job = $1`, g.Row.Job), "%s: nothing is recorded twice", name)
	}
}

func TestG5LateFailureChangesNothingAndLateSuccessIsEvidence(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("late", 1)[0]
	first := c.ask(c.worker, ref).Grants[0]
	c.settle(first, job.NotBegun("lease lost")) // ready again, under emission 2
	second := c.ask(c.worker, job.Ref{Job: ref.Job, Generation: 1, Emission: 2}).Grants[0]
	require.EqualValues(t, 2, second.Row.Fence)

	require.True(t, c.settle(first, job.NotDone(job.ClassPermanent, job.CodeRejected, "stale")).Late)
	state, _, fence := c.state(ref.Job)
	require.Equal(t, job.Leased, state, "a stale fence changes nothing")
	require.EqualValues(t, 2, fence)

	late := c.settle(first, job.Done(&job.Receipt{Status: "200"}))
	require.True(t, late.Late)
	require.Equal(t, job.Delivered, late.State, "it happened, whoever says so")

	require.True(t, c.settle(second, job.Done(nil)).Late)
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1 AND name = 'done' AND fence = 2 AND late`, ref.Job), "a second success is recorded and shown")
}

func TestC35SweepNeverOverwritesACompletedJob(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("rescue", 1)[0]
	g := c.ask(c.worker, ref).Grants[0]
	c.settle(g, job.Done(nil))
	// A worker that is not the holder, and the holder under an older fence, change 0 rows.
	other := c.register()
	settled, err := c.Settle(t.Context(), other, []machine.Report{report(g, job.MayBeDone(job.CodeLeaseEnded, ""))})
	require.NoError(t, err)
	require.True(t, settled[0].Late)
	state, _, _ := c.state(ref.Job)
	require.Equal(t, job.Delivered, state)
}

func TestC66SettleWhoseReplyIsLostIsSettledOnceByRepeating(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"request lost": true, "reply lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := ledgertest.URL(t)
			c := &crew{bench: benchOn(t, ledgertest.Pool(t, url)), kind: machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}}
			c.worker = c.register()
			grants := c.ask(c.worker, c.enqueue("cut", 2)...).Grants
			cut := &cut{loseRequest: lost}
			l := ledger.New(cut.pool(t, url))
			require.NoError(t, l.LoadKinds(t.Context()))
			reports := []machine.Report{report(grants[0], job.Done(nil))}
			_, err := l.Settle(t.Context(), c.worker, reports)
			require.NoError(t, err)

			reports = []machine.Report{report(grants[1], job.Done(nil))}
			cut.armed.Store(true)
			_, err = l.Settle(t.Context(), c.worker, reports)
			require.ErrorIs(t, err, machine.ErrUnclear)
			settled, err := l.Settle(t.Context(), c.worker, reports)
			require.NoError(t, err)
			require.Equal(t, job.Delivered, settled[0].State)
			require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.history WHERE job = $1 AND name = 'done' AND NOT late`, grants[1].Row.Job))
		})
	}
}

func TestHoldCostsNeitherFenceNorAttempt(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("held", 3)
	leased := c.ask(c.worker, refs[2]).Grants[0]
	_, err := c.HoldRefs(t.Context(), refs, job.HoldUnknownKind, time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, c.count(`SELECT count(*)::int FROM duly.job WHERE state = 'scheduled' AND waiting = 'held' AND hold = 'unknown_kind'
		AND fence = 0 AND attempt = 0 AND promote_at = wake_at AND wake_at > clock_timestamp() + interval '50 s'`))
	state, _, _ := c.state(leased.Row.Job)
	require.Equal(t, job.Leased, state, "a leased row is not held")
	require.Len(t, c.ask(c.worker, refs[0]).Stale, 1, "its reference is settled")
}

// A producer's transaction that has cancelled a job and stays open must not keep the
// others of the batch from being held, nor from being ended where they have expired.
func TestHoldLeavesARowThatSomebodyHasLocked(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("locked", 4)
	missing := job.Ref{Job: 1 << 40, Generation: 1, Emission: 1}
	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = c.CancelIn(t.Context(), tx, machine.Cancellation{Kind: kind, Key: "locked-2", Actor: "producer", Reason: "no longer wanted"})
	require.NoError(t, err)
	c.exec(`UPDATE duly.job SET deadline = clock_timestamp() - interval '1 s', expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`, refs[3].Job)
	locked, err := c.HoldRefs(t.Context(), append(refs, missing), job.HoldSlots, time.Minute)
	require.NoError(t, err)
	require.Equal(t, refs[2:3], locked)
	for id, want := range map[int64]job.State{refs[0].Job: job.Scheduled, refs[1].Job: job.Scheduled, refs[2].Job: job.Ready, refs[3].Job: job.Quarantined} {
		state, _, _ := c.state(id)
		require.Equal(t, want, state)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	locked, err = c.HoldRefs(t.Context(), locked, job.HoldSlots, time.Minute)
	require.NoError(t, err)
	require.Empty(t, locked)
	state, _, _ := c.state(refs[2].Job)
	require.Equal(t, job.Scheduled, state)
	ledgertest.Agrees(t, c.pool)
}

// A producer's transaction that has asked to cancel a leased job and stays open must
// not keep the results of other jobs out of the ledger.
func TestResultOfALockedRowIsPendingAndItsNeighboursAreSettled(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	grants := c.ask(c.worker, c.enqueue("locked", 10)...).Grants
	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = c.CancelIn(t.Context(), tx, machine.Cancellation{Kind: kind, Key: "locked-3", Actor: "producer", Reason: "no longer wanted"})
	require.NoError(t, err)
	reports := make([]machine.Report, len(grants))
	for i, g := range grants {
		reports[i] = report(g, job.Done(nil))
	}
	settled, err := c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	pending := 0
	for i, s := range settled {
		require.Equal(t, reports[i].Attempt, s.Attempt)
		if s.Pending {
			require.Equal(t, "locked-3", grants[i].Key)
			pending++
			continue
		}
		require.Equal(t, job.Delivered, s.State)
		require.False(t, s.Late)
	}
	require.Equal(t, 1, pending)
	require.NoError(t, tx.Commit(t.Context()))
	settled, err = c.Settle(t.Context(), c.worker, reports)
	require.NoError(t, err)
	for _, s := range settled {
		require.Equal(t, job.Delivered, s.State, "it happened, whatever was asked meanwhile")
	}
	ledgertest.Agrees(t, c.pool)
}
