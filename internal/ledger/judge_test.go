package ledger_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// contact is unbroken for long enough.
const contact = time.Hour

func (b *bench) mark(partitions ...int32) machine.Mark {
	b.t.Helper()
	m, err := b.IssueMark(b.t.Context(), lane, b.holder, partitions)
	require.NoError(b.t, err)
	return m
}

func (b *bench) pass(partition int32, number int64) {
	b.t.Helper()
	require.NoError(b.t, b.PassMark(b.t.Context(), lane, partition, number))
}

// ripen makes every passed mark old enough to be judged.
func (b *bench) ripen() {
	b.t.Helper()
	b.exec(`UPDATE duly.mark SET passed_at = passed_at - interval '2 min' WHERE passed_at IS NOT NULL`)
}

func (b *bench) stands() bool {
	b.t.Helper()
	stands, err := b.MarkStands(b.t.Context(), lane)
	require.NoError(b.t, err)
	return stands
}

// judge judges all there is and returns how many were lost.
func (b *bench) judge(limit int) int {
	b.t.Helper()
	for all := 0; ; {
		lost, more, err := b.Judge(b.t.Context(), lane, contact, limit)
		require.NoError(b.t, err)
		all += lost
		if !more {
			return all
		}
	}
}

// lease leases the references and returns those that were granted.
func (b *bench) lease(refs ...job.Ref) []machine.Grant {
	b.t.Helper()
	w := machine.Worker{ID: uuid.NewString(), Label: "test", Version: "v1", LeaseTime: 30 * time.Second}
	require.NoError(b.t, b.RegisterWorker(b.t.Context(), w))
	k := machine.Kind{Name: kind, Lane: lane, Channel: "go", Policy: machine.DefaultPolicy(), Promises: machine.DefaultPromises(10 * time.Second)}
	leases, err := b.Lease(b.t.Context(), machine.LeaseRequest{Worker: w, Kind: k, Refs: refs})
	require.NoError(b.t, err)
	return leases.Grants
}

// announced relays everything and returns the references.
func (b *bench) announced() []job.Ref {
	b.t.Helper()
	var refs []job.Ref
	for {
		page, err := b.ReadOutbox(b.t.Context(), lane, b.holder, 100)
		require.NoError(b.t, err)
		if len(page.Rows) == 0 {
			return refs
		}
		for _, r := range page.Rows {
			refs = append(refs, r.Refs...)
		}
		require.NoError(b.t, b.Advance(b.t.Context(), lane, b.holder, page))
	}
}

// C70: whatever the bus acknowledged and lost is announced anew, each once, and
// nothing that somebody has.
func TestC70WhatTheBusLostIsAnnouncedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 10)
	b.announced()
	require.Len(t, b.lease(refs[:4]...), 4, "these came through")

	m := b.mark(0)
	require.Zero(t, b.judge(100), "a mark that stands proves nothing")
	b.pass(0, m.Number)
	require.Zero(t, b.judge(100), "nor does one that passed just now")
	b.ripen()
	require.Equal(t, 6, b.judge(3))
	require.Zero(t, b.judge(3), "each row is judged once")

	again := b.announced()
	require.Len(t, again, 6)
	for _, r := range again {
		require.Equal(t, int32(2), r.Emission)
	}
	require.Empty(t, b.lease(refs[4:]...), "the lost emission is stale should it come after all")
	require.Len(t, b.lease(again...), 6)
}

func TestG2WholeBusLostLosesNoJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 5)
	lost := b.mark(0, 1) // gone with the bus
	b.announced()
	b.enqueue("b", 5)
	b.announced()
	next := b.mark(0, 1)
	b.pass(0, next.Number)
	require.True(t, b.stands(), "one partition is missing")
	b.pass(1, next.Number)
	require.False(t, b.stands())
	b.ripen()
	require.Equal(t, 10, b.judge(100), "the next mark speaks for mark %d", lost.Number)
	standing, err := b.StandingMarks(t.Context())
	require.NoError(t, err)
	require.Empty(t, standing)
}

func TestWithoutUnbrokenContactNothingIsJudged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("a", 1)
	b.announced()
	b.pass(0, b.mark(0).Number)
	b.ripen()
	lost, more, err := b.Judge(t.Context(), lane, machine.JudgeAfter-time.Second, 10)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.False(t, more)
	require.Equal(t, 1, b.judge(10))
}

func TestJudgeLooksOnlyAtWhatTheMarkCovers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("before", 2)
	b.announced()
	m := b.mark(0)
	b.enqueue("relayed behind the mark", 2)
	b.announced()
	b.enqueue("not relayed", 2)
	b.pass(0, m.Number)
	b.ripen()
	require.Equal(t, 2, b.judge(10))
}

func TestSeveralJudgesJudgeEachRowOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	for range 20 {
		b.enqueue(uuid.NewString(), 2)
	}
	b.announced()
	b.pass(0, b.mark(0).Number)
	b.ripen()
	var group sync.WaitGroup
	results := make([]int, 3)
	for i := range results {
		group.Go(func() {
			for range 30 {
				lost, _, err := b.Judge(t.Context(), lane, contact, 3)
				if err != nil {
					t.Errorf("judging: %v", err)
				}
				results[i] += lost
			}
		})
	}
	group.Wait()
	require.Equal(t, 40, results[0]+results[1]+results[2]+b.judge(100))
	require.Len(t, b.announced(), 40)
}

func TestMarkThatWasNotIssuedPassesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	m := b.mark(0)
	b.pass(0, m.Number+1)
	b.pass(7, m.Number)
	require.True(t, b.stands())
	b.pass(0, m.Number)
	require.False(t, b.stands())
}

func TestLargestMarkOfAPartitionIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	first, second := b.mark(0, 1), b.mark(0, 1)
	require.Less(t, first.Number, second.Number)
	b.pass(0, second.Number)
	b.pass(0, first.Number) // a late copy
	b.pass(1, second.Number)
	require.False(t, b.stands())
}

func TestPartitionsThatPassAtOncePassTheMark(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	for range 20 {
		m := b.mark(0, 1, 2)
		var group sync.WaitGroup
		for p := range int32(3) {
			group.Go(func() {
				if err := b.PassMark(t.Context(), lane, p, m.Number); err != nil {
					t.Errorf("passing: %v", err)
				}
			})
		}
		group.Wait()
		require.False(t, b.stands())
	}
}

func TestOnlyTheHolderIssuesMarks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.another()
	other.claim(lane)
	_, err := b.IssueMark(t.Context(), lane, b.holder, []int32{0})
	require.ErrorIs(t, err, machine.ErrLostTopic)
	require.False(t, b.stands())
	other.mark(0)
	standing, err := b.StandingMarks(t.Context())
	require.NoError(t, err)
	require.Len(t, standing, 1)
	require.Equal(t, lane, standing[0].Lane)
	require.False(t, standing[0].Issued.IsZero())
	require.Positive(t, standing[0].Age)
}

var errTooLarge = errors.New("message is too large")

func (b *bench) setAside() machine.OutboxRow {
	b.t.Helper()
	page, err := b.ReadOutbox(b.t.Context(), lane, b.holder, 10)
	require.NoError(b.t, err)
	require.Len(b.t, page.Rows, 1)
	require.NoError(b.t, b.SetAside(b.t.Context(), lane, page.Rows, errTooLarge))
	require.NoError(b.t, b.Advance(b.t.Context(), lane, b.holder, page))
	return page.Rows[0]
}

func (b *bench) unsendable() []machine.Unsendable {
	b.t.Helper()
	all, err := b.Unsendable(b.t.Context(), 10)
	require.NoError(b.t, err)
	return all
}

func (b *bench) retryUnsendable() int {
	b.t.Helper()
	b.exec(`UPDATE duly.unsendable SET next_at = clock_timestamp() WHERE retried IS NULL`)
	n, err := b.RetryUnsendable(b.t.Context(), lane)
	require.NoError(b.t, err)
	return n
}

func TestUnsendableRowIsVisibleAndTriedAgainWithBackoff(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 2)
	row := b.setAside()

	all := b.unsendable()
	require.Len(t, all, 1)
	require.Equal(t, row.ID, all[0].Outbox)
	require.Equal(t, refs, all[0].Refs)
	require.Equal(t, kind, all[0].Kind)
	require.Equal(t, errTooLarge.Error(), all[0].Error)
	require.Equal(t, int32(1), all[0].Tries)
	n, err := b.RetryUnsendable(t.Context(), lane)
	require.NoError(t, err)
	require.Zero(t, n, "its time has not come")

	require.Equal(t, 1, b.retryUnsendable())
	again := b.setAside()
	require.NotEqual(t, row.ID, again.ID, "the next try is a new row")
	require.Equal(t, row.Refs, again.Refs)
	all = b.unsendable()
	require.Len(t, all, 1)
	require.Equal(t, int32(2), all[0].Tries)
	require.Greater(t, all[0].Next.Sub(all[0].Since), 15*time.Second, "the wait doubles")

	require.Equal(t, 1, b.retryUnsendable())
	require.Len(t, b.announced(), 2, "now it is taken")
	require.Zero(t, b.retryUnsendable())
	require.Empty(t, b.unsendable())
	counts, err := b.CountUnsendable(t.Context())
	require.NoError(t, err)
	require.Empty(t, counts)
}

// C49: what waited in the background must not overtake. A job that moved on while its
// announcement was set aside is not announced by the old one.
func TestC49OverdueTryOfAStaleEmissionIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 1)
	b.setAside()
	require.Len(t, b.lease(refs...), 1)
	require.Zero(t, b.retryUnsendable())
	require.Empty(t, b.unsendable())
	require.Empty(t, b.announced())
}

func TestWhatIsSetAsideIsNotJudgedLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 3)
	page, err := b.ReadOutbox(t.Context(), lane, b.holder, 10)
	require.NoError(t, err)
	part := page.Rows[0]
	part.Refs = refs[:1]
	require.NoError(t, b.SetAside(t.Context(), lane, []machine.OutboxRow{part}, errTooLarge))
	require.NoError(t, b.Advance(t.Context(), lane, b.holder, page))
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 2, b.judge(10), "the two others of its row were sent and lost")
	b.announced()

	require.Equal(t, 1, b.retryUnsendable())
	require.Equal(t, refs[:1], b.announced())
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 3, b.judge(10), "a try that was taken is judged like any other row")
}

// What the broker refuses stays with the ledger, which tries it ever more rarely. None of its
// tries is a loss, however long the first lies behind a mark that has passed.
func TestWhatTheBrokerRefusesIsNeverJudgedLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	refs := b.enqueue("a", 1)
	b.setAside()
	b.pass(0, b.mark(0).Number)
	for try := range int32(3) {
		require.Equal(t, 1, b.retryUnsendable())
		if try == 1 {
			b.ripen()
			require.Zero(t, b.judge(10), "its next try is on its way")
		}
		b.setAside()
		b.pass(0, b.mark(0).Number)
		b.ripen()
		require.Zero(t, b.judge(10))
		all := b.unsendable()
		require.Len(t, all, 1)
		require.Equal(t, try+2, all[0].Tries)
		require.Equal(t, refs, all[0].Refs, "no emission but the first")
	}
	require.Equal(t, 1, b.retryUnsendable())
	require.Len(t, b.announced(), 1)
	b.pass(0, b.mark(0).Number)
	b.ripen()
	require.Equal(t, 1, b.judge(10), "what was taken at last can be lost")
}

// A producer's transaction that has cancelled a job and stays open must not stop the judge
// for as long as a round may take; and since a row is judged once, nothing is passed over.
func TestJudgeDoesNotWaitForARowThatSomebodyHasLocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claim(lane)
	b.enqueue("locked", 3)
	b.announced()
	b.pass(0, b.mark(0).Number)
	b.ripen()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = b.CancelIn(t.Context(), tx, machine.Cancellation{Kind: kind, Key: "locked-1", Actor: "producer", Reason: "no longer wanted"})
	require.NoError(t, err)
	_, _, err = b.Judge(t.Context(), lane, contact, 10)
	require.ErrorContains(t, err, "a transaction that is open has locked one of its jobs")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, b.judge(10))
}
