package memledger_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/contact"
	"duly.dev/duly/internal/dispatch"
	"duly.dev/duly/internal/execute"
	"duly.dev/duly/internal/machine"
	"duly.dev/duly/internal/memledger"
	"duly.dev/duly/internal/redrive"
	"duly.dev/duly/internal/schedule"
	"duly.dev/duly/internal/sweep"
	"duly.dev/duly/pkg/job"
)

// The loops run on it.
var (
	_ execute.Ledger  = (*memledger.Ledger)(nil)
	_ execute.Heart   = (*memledger.Ledger)(nil)
	_ dispatch.Ledger = (*memledger.Ledger)(nil)
	_ sweep.Ledger    = (*memledger.Ledger)(nil)
	_ schedule.Ledger = (*memledger.Ledger)(nil)
	_ contact.Ledger  = (*memledger.Ledger)(nil)
	_ redrive.Ledger  = (*memledger.Ledger)(nil)
	_ redrive.Finder  = (*memledger.Ledger)(nil)
)

// bench is a ledger with a kind, a worker and a dispatcher.
type bench struct {
	*memledger.Ledger
	t      *testing.T
	kind   machine.Kind
	worker machine.Worker
	holder string
}

func newBench(t *testing.T, options ...memledger.Option) *bench {
	t.Helper()
	b := &bench{
		Ledger: memledger.New(options...), t: t, holder: "dispatcher",
		kind:   machine.Kind{Name: "reminder", Lane: "mail", Channel: "smtp", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)},
		worker: machine.Worker{ID: "worker", Version: "v1", LeaseTime: 30 * time.Second},
	}
	require.NoError(t, b.SyncKinds(t.Context(), []machine.Kind{b.kind}))
	require.NoError(t, b.RegisterWorker(t.Context(), b.worker))
	return b
}

func (b *bench) enqueue(key string) job.Ref {
	b.t.Helper()
	made, err := b.Enqueue(b.t.Context(), []job.Spec{spec(key)})
	require.NoError(b.t, err)
	require.NoError(b.t, made[0].Refused)
	return job.Ref{Job: made[0].Job, Generation: 1, Emission: 1}
}

func spec(key string) job.Spec {
	return job.Spec{Kind: "reminder", Key: key, Destination: "a@example.org", Payload: []byte(`{}`)}
}

func (b *bench) lease(refs ...job.Ref) machine.Leases {
	b.t.Helper()
	leases, err := b.Lease(b.t.Context(), machine.LeaseRequest{Worker: b.worker, Kind: b.kind, Refs: refs})
	require.NoError(b.t, err)
	return leases
}

func (b *bench) settle(g machine.Grant, r job.Result) machine.Settled {
	b.t.Helper()
	settled, err := b.Settle(b.t.Context(), b.worker, []machine.Report{report(g, r)})
	require.NoError(b.t, err)
	return settled[0]
}

func report(g machine.Grant, r job.Result) machine.Report {
	return machine.Report{Attempt: machine.Attempt{Job: g.Row.Job, Generation: g.Row.Generation, Fence: g.Row.Fence}, Result: r, Kind: &g.Row.Kind}
}

func (b *bench) row(key string) machine.Row {
	b.t.Helper()
	story, err := b.Find(b.t.Context(), "reminder", key)
	require.NoError(b.t, err)
	g, ok := story.Current()
	require.True(b.t, ok)
	return g.Row
}

// relayed takes everything that the topic has, as a dispatcher does.
func (b *bench) relayed(topic string) []machine.OutboxRow {
	b.t.Helper()
	ok, err := b.ClaimTopic(b.t.Context(), topic, b.holder, time.Minute)
	require.NoError(b.t, err)
	require.True(b.t, ok)
	var rows []machine.OutboxRow
	for {
		page, err := b.ReadOutbox(b.t.Context(), topic, b.holder, 2)
		require.NoError(b.t, err)
		if len(page.Rows) == 0 {
			return rows
		}
		rows = append(rows, page.Rows...)
		require.NoError(b.t, b.Advance(b.t.Context(), topic, b.holder, page))
	}
}

func TestAJobIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.enqueue("once")
	require.Equal(t, []job.Ref{ref}, b.relayed("mail")[0].Refs)
	leases := b.lease(ref, ref)
	require.Len(t, leases.Grants, 1)
	require.Equal(t, "once", leases.Grants[0].Key)
	require.Equal(t, []job.Ref{ref}, b.lease(ref).Stale)
	done := job.Done(&job.Receipt{ID: "42"})
	require.Equal(t, job.Delivered, b.settle(leases.Grants[0], done).State)
	require.True(t, b.settle(leases.Grants[0], done).Late, "a copy of a report changes nothing")
	story, err := b.Show(t.Context(), "reminder", "once")
	require.NoError(t, err)
	require.Len(t, story.Events, 2, "the lease and its end")
	require.Equal(t, "42", story.Generations[0].Receipt.ID)
}

func TestEnqueueIsIdempotentOnTheKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.enqueue("k")
	again, err := b.Enqueue(t.Context(), []job.Spec{spec("k")})
	require.NoError(t, err)
	require.Equal(t, machine.Enqueued{Job: first.Job}, again[0])
	other := spec("k")
	other.Payload = []byte(`{"a":1}`)
	conflict, err := b.Enqueue(t.Context(), []job.Spec{other, {Kind: "unknown", Key: "x", Payload: []byte(`1`)}, spec("l")})
	require.NoError(t, err)
	require.ErrorIs(t, conflict[0].Refused, job.ErrConflict)
	require.ErrorIs(t, conflict[1].Refused, job.ErrRefused)
	require.True(t, conflict[2].Created, "a bad request costs its neighbours nothing")

	replaced, err := b.Replace(t.Context(), []job.Spec{other})
	require.NoError(t, err)
	require.True(t, replaced[0].Replaced)
	g := b.lease(first).Grants[0]
	require.JSONEq(t, `{"a":1}`, string(g.Payload))
	begun, err := b.Replace(t.Context(), []job.Spec{spec("k")})
	require.NoError(t, err)
	require.ErrorIs(t, begun[0].Refused, job.ErrConflict)
}

func TestALateBodyOfATakenKeyIsStillTheSameRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		s := spec("k")
		s.Deadline = time.Now().Add(time.Minute)
		made, err := b.Enqueue(t.Context(), []job.Spec{s})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		again, err := b.Enqueue(t.Context(), []job.Spec{s})
		require.NoError(t, err)
		require.Equal(t, machine.Enqueued{Job: made[0].Job}, again[0])
		s.Key = "other"
		late, err := b.Enqueue(t.Context(), []job.Spec{s})
		require.NoError(t, err)
		require.ErrorIs(t, late[0].Refused, job.ErrRefused)
	})
}

func TestARetryComesByItsDelayedEmissionOrByPromotion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := b.lease(b.enqueue("k")).Grants[0]
		settled := b.settle(first, job.NotDone(job.ClassTransient, job.CodeGreylisted, "come back"))
		require.Equal(t, job.Scheduled, settled.State)
		rows := b.relayed("mail")
		delayed := rows[len(rows)-1]
		require.Equal(t, settled.WakeAt, delayed.At)
		early := b.lease(delayed.Refs[0])
		require.Equal(t, time.Until(settled.WakeAt), early.Early[0].In)

		time.Sleep(time.Until(settled.WakeAt))
		p, err := b.Promote(t.Context(), machine.Position{}, 10)
		require.NoError(t, err)
		require.Empty(t, p.Promoted, "the delayed emission comes first")
		time.Sleep(machine.RetryGrace)
		p, err = b.Promote(t.Context(), machine.Position{}, 10)
		require.NoError(t, err)
		require.Equal(t, 1, p.Promoted[job.WaitingRetry])
		require.Len(t, b.lease(delayed.Refs[0]).Stale, 1, "its older emission is stale now")
		require.EqualValues(t, 2, b.lease(job.Ref{Job: delayed.Refs[0].Job, Generation: 1, Emission: 3}).Grants[0].Row.Attempt)
	})
}

func TestFaultsFailBeforeOrLoseTheReplyOrCommitLater(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.enqueue("k")
	ask := machine.LeaseRequest{Worker: b.worker, Kind: b.kind, Refs: []job.Ref{ref}}
	fault := memledger.Fail
	b.Faults(func(method string) memledger.Fault {
		if method == "Lease" {
			return fault
		}
		return memledger.None
	})

	_, err := b.Lease(t.Context(), ask)
	require.ErrorIs(t, err, memledger.ErrFault)
	require.Equal(t, job.Ready, b.row("k").State)

	fault = memledger.CommitLater
	_, err = b.Lease(t.Context(), ask)
	require.ErrorIs(t, err, machine.ErrUnclear)
	require.Equal(t, job.Ready, b.row("k").State)
	held, err := b.LeasedBy(t.Context(), b.worker.ID, ask.Refs)
	require.NoError(t, err)
	require.Empty(t, held)
	require.Equal(t, 1, b.Land())
	require.Equal(t, job.Leased, b.row("k").State)

	attempts, err := b.Heartbeat(t.Context(), b.worker.ID)
	require.NoError(t, err)
	require.Equal(t, []machine.Attempt{{Job: ref.Job, Generation: 1, Fence: 1}}, attempts, "the heartbeat tells of it")
	held, err = b.LeasedBy(t.Context(), b.worker.ID, ask.Refs)
	require.NoError(t, err)
	b.settle(held[0], job.NotBegun("not mine"))

	fault = memledger.LoseReply
	ask.Refs[0].Emission = 2
	_, err = b.Lease(t.Context(), ask)
	require.ErrorIs(t, err, machine.ErrUnclear)
	require.Equal(t, job.Leased, b.row("k").State)

	b.Faults(nil)
	require.Zero(t, b.Land())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Lease(ended, ask)
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnEndedWorkerLeasesAndRenewsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ref := b.enqueue("k")
	require.NoError(t, b.EndWorker(t.Context(), b.worker.ID))
	_, err := b.Lease(t.Context(), machine.LeaseRequest{Worker: b.worker, Kind: b.kind, Refs: []job.Ref{ref}})
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	_, err = b.Heartbeat(t.Context(), b.worker.ID)
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	require.Error(t, b.RegisterWorker(t.Context(), b.worker), "an id registers once")
}

func TestATopicHasOneHolderAndOneCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for _, k := range []string{"a", "b", "c"} {
			b.enqueue(k)
		}
		claim := func(holder string) bool {
			ok, err := b.ClaimTopic(t.Context(), "mail", holder, time.Minute)
			require.NoError(t, err)
			return ok
		}
		require.True(t, claim("one"))
		require.False(t, claim("two"))
		page, err := b.ReadOutbox(t.Context(), "mail", "one", 2)
		require.NoError(t, err)
		require.Len(t, page.Rows, 2)
		require.False(t, page.Last)
		require.NoError(t, b.Advance(t.Context(), "mail", "one", page))
		require.ErrorIs(t, b.Advance(t.Context(), "mail", "one", page), machine.ErrLostTopic)
		time.Sleep(2 * time.Minute)
		require.True(t, claim("two"))
		_, err = b.ReadOutbox(t.Context(), "mail", "one", 2)
		require.ErrorIs(t, err, machine.ErrLostTopic)
		page, err = b.ReadOutbox(t.Context(), "mail", "two", 2)
		require.NoError(t, err)
		require.Len(t, page.Rows, 1)
		require.True(t, page.Last)
	})
}

func TestWhatTheBusLostIsAnnouncedAnewBehindAMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		lost, taken := b.enqueue("lost"), b.enqueue("taken")
		b.lease(taken)
		b.relayed("mail")
		mark, err := b.IssueMark(t.Context(), "mail", b.holder, []int32{0, 1})
		require.NoError(t, err)
		after := b.enqueue("after the mark")
		judge := func(contact time.Duration) int {
			n, more, err := b.Judge(t.Context(), "mail", contact, 10)
			require.NoError(t, err)
			require.False(t, more)
			return n
		}
		require.NoError(t, b.PassMark(t.Context(), "mail", 0, mark.Number))
		require.NoError(t, b.PassMark(t.Context(), "mail", 1, mark.Number+100), "one that was never issued proves nothing")
		time.Sleep(time.Hour)
		require.Zero(t, judge(time.Hour), "it stands")
		stands, err := b.MarkStands(t.Context(), "mail")
		require.NoError(t, err)
		require.True(t, stands)

		require.NoError(t, b.PassMark(t.Context(), "mail", 1, mark.Number))
		require.Zero(t, judge(time.Hour), "it has only just passed")
		time.Sleep(machine.JudgeAfter)
		require.Zero(t, judge(time.Second), "the caller has not been in contact for long enough")
		require.Equal(t, 1, judge(time.Hour))
		require.Zero(t, judge(time.Hour), "each row is judged once")
		require.Equal(t, lost.Emission+1, b.row("lost").Emission)
		require.Equal(t, after.Emission, b.row("after the mark").Emission)

		n, err := b.KeepOutbox(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		rows := b.relayed("mail")
		require.Len(t, rows, 2, "what was judged is dropped, the rest is still relayed")
	})
}

func TestWhatCannotBeSentIsTriedAgainAndDroppedWhenItIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ref := b.enqueue("k")
		rows := b.relayed("mail")
		require.NoError(t, b.SetAside(t.Context(), "mail", rows, errors.New("too large")))
		try := func() int {
			n, err := b.RetryUnsendable(t.Context(), "mail")
			require.NoError(t, err)
			return n
		}
		require.Zero(t, try())
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, try())
		again := b.relayed("mail")
		require.Equal(t, rows[0].Refs, again[0].Refs)
		require.NoError(t, b.SetAside(t.Context(), "mail", again, errors.New("still too large")))
		time.Sleep(10 * time.Second)
		require.Zero(t, try(), "the wait doubles")
		set, err := b.Unsendable(t.Context(), 10)
		require.NoError(t, err)
		require.EqualValues(t, 2, set[0].Tries)
		b.lease(ref)
		time.Sleep(time.Minute)
		require.Zero(t, try())
		counts, err := b.CountUnsendable(t.Context())
		require.NoError(t, err)
		require.Empty(t, counts)
	})
}

// None of the tries of what the broker refuses is a loss, until one was taken.
func TestWhatIsSetAsideIsNotJudgedLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.enqueue("k")
		mark := func() {
			mark, err := b.IssueMark(t.Context(), "mail", b.holder, []int32{0})
			require.NoError(t, err)
			require.NoError(t, b.PassMark(t.Context(), "mail", 0, mark.Number))
			time.Sleep(machine.JudgeAfter)
		}
		judge := func() int {
			lost, _, err := b.Judge(t.Context(), "mail", time.Hour, 10)
			require.NoError(t, err)
			return lost
		}
		try := func() {
			n, err := b.RetryUnsendable(t.Context(), "mail")
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		refuse := func() {
			require.NoError(t, b.SetAside(t.Context(), "mail", b.relayed("mail"), errors.New("too large")))
		}
		refuse()
		mark()
		try()
		refuse()
		require.Zero(t, judge(), "the first try, judged behind the second")
		mark()
		try()
		require.Zero(t, judge(), "the second, while the third is on its way")
		b.relayed("mail")
		mark()
		require.Equal(t, 1, judge(), "what was taken at last can be lost")
	})
}

func TestG9OneRecoveryKeyMakesOneSuccessor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.settle(b.lease(b.enqueue("k")).Grants[0], job.NotDone(job.ClassPermanent, job.CodeDestinationInvalid, "no such mailbox"))
	notices, err := b.Notices(t.Context(), b.relayed(machine.DeadTopic)[0].Refs)
	require.NoError(t, err)
	require.Equal(t, job.ReasonPermanent, notices[0].Reason)

	req := machine.RedriveRequest{Kind: "reminder", Key: "k", Generation: 1, RecoveryKey: "r1", Approver: "ann", Actor: "bob", Reason: "typo", Destination: "b@example.org"}
	made, err := b.Redrive(t.Context(), req)
	require.NoError(t, err)
	require.EqualValues(t, 2, made.Generation)
	again, err := b.Redrive(t.Context(), req)
	require.NoError(t, err)
	require.True(t, again.Again)
	require.Equal(t, made.Generation, again.Generation)
	other := req
	other.Destination = "c@example.org"
	_, err = b.Redrive(t.Context(), other)
	require.ErrorIs(t, err, job.ErrConflict)
	other.RecoveryKey = "r2"
	var denied *machine.Denied
	_, err = b.Redrive(t.Context(), other)
	require.ErrorAs(t, err, &denied)
	require.Equal(t, machine.Superseded, denied.Why)

	work := b.relayed("mail")
	refs := work[len(work)-1].Refs
	require.Len(t, slices.DeleteFunc(work, func(r machine.OutboxRow) bool { return r.Refs[0].Generation != 2 }), 1, "one emission")
	require.Equal(t, "b@example.org", b.lease(refs...).Grants[0].Destination)
}

func TestAPersonResolvesCancelsAndLists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.settle(b.lease(b.enqueue("k")).Grants[0], job.MayBeDone(job.CodeTimeout, "no answer"))
		page, err := b.List(t.Context(), machine.ListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Entries, 1)
		require.Equal(t, job.Unknown, page.Entries[0].State)
		no := machine.Answer{Kind: "reminder", Key: "k", Fence: 1, Verdict: machine.VerdictNotDelivered, Evidence: "their log"}
		var denied *machine.Denied
		_, err = b.Resolve(t.Context(), no)
		require.ErrorAs(t, err, &denied)
		require.Equal(t, machine.TooSoon, denied.Why)
		standing, err := b.Cancel(t.Context(), machine.Cancellation{Kind: "reminder", Key: "k", Actor: "ann"})
		require.NoError(t, err)
		require.True(t, standing.Requested)
		time.Sleep(time.Minute)
		standing, err = b.Resolve(t.Context(), no)
		require.NoError(t, err)
		require.Equal(t, job.Cancelled, standing.State)
		again, err := b.Cancel(t.Context(), machine.Cancellation{Kind: "reminder", Key: "k", Actor: "ann"})
		require.NoError(t, err)
		require.True(t, again.Again)
		_, err = b.Cancel(t.Context(), machine.Cancellation{Kind: "reminder", Key: "nobody"})
		require.ErrorIs(t, err, job.ErrNotFound)
	})
}

func TestAHoldCostsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		ref := b.enqueue("k")
		_, err := b.HoldRefs(t.Context(), []job.Ref{ref, ref}, job.HoldPaused, time.Minute)
		require.NoError(t, err)
		require.Equal(t, job.WaitingHeld, b.row("k").Waiting)
		require.Len(t, b.lease(ref).Stale, 1)
		time.Sleep(time.Minute)
		p, err := b.Promote(t.Context(), machine.Position{}, 10)
		require.NoError(t, err)
		require.Equal(t, 1, p.Promoted[job.WaitingHeld])
		g := b.lease(job.Ref{Job: ref.Job, Generation: 1, Emission: 2}).Grants[0]
		require.EqualValues(t, 1, g.Row.Attempt)
	})
}

func TestADeadWorkersLeasesEndInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.lease(b.enqueue("k"), b.enqueue("l"))
		beats, err := b.Beats(t.Context())
		require.NoError(t, err)
		require.Len(t, beats, 1)
		ended, err := b.EndDead(t.Context(), b.worker.ID, beats[0].Count-1)
		require.NoError(t, err)
		require.False(t, ended, "it was heard of since")
		ended, err = b.EndDead(t.Context(), b.worker.ID, beats[0].Count)
		require.NoError(t, err)
		require.True(t, ended)
		s, err := b.EndLeasesOf(t.Context(), b.worker.ID, time.Time{}, 1)
		require.NoError(t, err)
		require.Equal(t, machine.Tally{{State: job.Unknown}: 1}, s.Ended)
		require.True(t, s.More)
		undrained, err := b.Undrained(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{b.worker.ID}, undrained)
		require.NoError(t, b.Drained(t.Context(), b.worker.ID))
		f, err := b.Figures(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, f.UnknownOpen)
		require.Zero(t, f.Workers)
	})
}

func TestThePatrolFindsWhatNobodyNoticedAndRemovesWhatIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.lease(b.enqueue("leased"))
		b.enqueue("waits")
		b.settle(b.lease(b.enqueue("done")).Grants[0], job.Done(nil))
		time.Sleep(25 * time.Hour)
		walk := func() machine.Patrol {
			p, err := b.Patrol(t.Context(), 10, time.Minute, 24*time.Hour)
			require.NoError(t, err)
			return p
		}
		found := walk()
		require.Equal(t, map[machine.Finding]int{machine.FoundLease: 1, machine.FoundExpired: 1, machine.FoundOld: 1}, found.Acted)
		require.False(t, walk().Mine, "the next page waits")
		time.Sleep(time.Minute)
		require.Zero(t, walk().Rows, "the walk has ended")

		story, err := b.Show(t.Context(), "reminder", "done")
		require.NoError(t, err)
		require.True(t, story.Removed)
		require.Equal(t, job.Delivered, story.LastState)
		again, err := b.Enqueue(t.Context(), []job.Spec{spec("done")})
		require.NoError(t, err)
		require.Equal(t, job.Delivered, again[0].State, "its key still answers")
		var denied *machine.Denied
		_, err = b.Cancel(t.Context(), machine.Cancellation{Kind: "reminder", Key: "done"})
		require.ErrorAs(t, err, &denied)
		require.Equal(t, machine.Removed, denied.Why)
	})
}
