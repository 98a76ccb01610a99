package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

const retention = 30 * 24 * time.Hour

// patrol walks the whole ledger once.
func (b *bench) patrol(rows int) map[machine.Finding]int {
	b.t.Helper()
	all := map[machine.Finding]int{}
	for {
		found, err := b.Patrol(b.t.Context(), rows, 0, retention)
		require.NoError(b.t, err)
		require.True(b.t, found.Mine)
		for f, n := range found.Acted {
			if n > 0 {
				all[f] += n
			}
		}
		if found.Rows == 0 {
			return all
		}
	}
}

// C37: a leased job without a lease that lives is found, whatever was lost.
func TestC37PatrolEndsLeasesThatNothingElseFinds(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("lease", 5)
	for _, r := range refs {
		require.Len(t, c.ask(c.worker, r).Grants, 1)
	}
	require.Empty(t, c.patrol(2), "all of them live")
	c.exec(`DELETE FROM duly.lease WHERE $1 = ANY (jobs)`, refs[0].Job)
	c.exec(`UPDATE duly.job SET worker = gen_random_uuid() WHERE id = $1`, refs[1].Job)
	c.exec(`UPDATE duly.lease SET at = at - interval '1 h' WHERE $1 = ANY (jobs)`, refs[2].Job)
	c.exec(`UPDATE duly.job SET leased_at = leased_at - interval '1 h' WHERE id = $1`, refs[2].Job)
	require.Equal(t, map[machine.Finding]int{machine.FoundLease: 3}, c.patrol(2))
	for i, want := range []job.State{job.Unknown, job.Unknown, job.Unknown, job.Leased, job.Leased} {
		require.Equal(t, want, c.row(refs[i].Job).State, "job %d", i)
	}
	_, err := c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)
	require.Equal(t, map[machine.Finding]int{machine.FoundLease: 2}, c.patrol(2), "nor one whose worker has ended")
}

func TestPatrolFindsWhatAChangedPolicyHasExpired(t *testing.T) {
	t.Parallel()
	c := newCrew(t, func(k *machine.Kind) { k.Promises.Window = 2 * time.Hour })
	refs := c.enqueue("policy", 3)
	doubt := c.enqueue("doubt", 1)[0]
	c.settle(c.ask(c.worker, doubt).Grants[0], job.MayBeDone(job.CodeTimeout, "x"))
	c.exec(`UPDATE duly.job SET first_ready_at = first_ready_at - interval '3 h', doubt_since = doubt_since - interval '3 h',
	        wake_at = wake_at + interval '1 h', promote_at = promote_at + interval '1 h'`)
	require.Equal(t, map[machine.Finding]int{machine.FoundExpired: 1}, c.patrol(100), "a window that is over")
	require.Equal(t, job.Unknown, c.row(doubt.Job).State)

	c.kind.Policy.MaxAge = time.Hour
	require.NoError(t, c.SyncKinds(t.Context(), []machine.Kind{c.kind}))
	require.Empty(t, c.expireAll(10), "the index knows the old policy")
	require.Equal(t, map[machine.Finding]int{machine.FoundExpired: 3}, c.patrol(2))
	require.Equal(t, job.Quarantined, c.row(refs[0].Job).State)
}

func TestPatrolClosesWhatIsNotListed(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("open", 1)[0]
	c.settle(c.ask(c.worker, ref).Grants[0], job.MayBeDone(job.CodeTimeout, "x"))
	c.exec(`UPDATE duly.job SET doubt_since = doubt_since - interval '8 days'`)
	require.Equal(t, map[machine.Finding]int{machine.FoundOpen: 1}, c.patrol(100))
}

// What ended long ago is removed; its key answers as before.
func TestJobsLeaveAfterTheirRetentionAndTheirKeysAnswerOn(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("old", 6)
	grants := c.ask(c.worker, refs[:5]...).Grants
	c.settle(grants[0], job.Done(nil))
	c.settle(grants[1], job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
	c.settle(grants[2], job.MayBeDone(job.CodeTimeout, "x"))
	c.settle(grants[3], job.Done(nil))
	c.exec(`UPDATE duly.job SET ended_at = ended_at - interval '31 days' WHERE id <> $1`, refs[3].Job)
	require.Equal(t, map[machine.Finding]int{machine.FoundOld: 2}, c.patrol(2))

	left := c.count(`SELECT count(*)::int FROM duly.job`)
	require.Equal(t, 4, left, "delivered too late to be old, unknown and open, leased, ready")
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.quarantine`))
	again, err := c.Enqueue(t.Context(), c.pool, []job.Spec{{Kind: kind, Key: "old-0", Payload: []byte(`{}`)}, {Kind: kind, Key: "old-1", Payload: []byte(`{}`)}})
	require.NoError(t, err)
	require.Equal(t, []job.State{job.Delivered, job.Quarantined}, []job.State{again[0].State, again[1].State})
	require.Equal(t, refs[0].Job, again[0].Job)
	require.False(t, again[0].Created)

	c.exec(`UPDATE duly.job SET doubt_since = doubt_since - interval '40 days' WHERE state = 'unknown'`)
	require.Equal(t, map[machine.Finding]int{machine.FoundOpen: 1}, c.patrol(100), "it is closed first")
	require.Equal(t, map[machine.Finding]int{machine.FoundOld: 1}, c.patrol(100))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.unknown`))
}

func TestOldGenerationsLeaveWithTheirJob(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("generations", 1)
	c.settle(c.ask(c.worker, refs...).Grants[0], job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
	c.exec(`UPDATE duly.job SET ended_at = ended_at - interval '31 days', successor = 2`)
	c.exec(`INSERT INTO duly.job (id, generation, kind, key, payload, due_at, state, first_ready_at, origin_at)
	        SELECT id, 2, kind, key, payload, due_at, 'ready', now(), now() FROM duly.job`)
	require.Empty(t, c.patrol(1), "as long as its successor lives it is evidence")
	c.exec(`UPDATE duly.job SET state = 'delivered', ended_at = now() - interval '31 days' WHERE generation = 2`)
	require.Equal(t, map[machine.Finding]int{machine.FoundOld: 1}, c.patrol(1))
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.job`))
}

func TestPatrolsShareOneWalk(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.enqueue("walk", 10)
	first, err := c.Patrol(t.Context(), 4, 0, retention)
	require.NoError(t, err)
	require.Equal(t, 4, first.Rows)
	other := c.another()
	soon, err := other.Patrol(t.Context(), 4, time.Hour, retention)
	require.NoError(t, err)
	require.False(t, soon.Mine, "its time has not come")
	var rows int
	for range 3 {
		p, err := other.Patrol(t.Context(), 4, 0, retention)
		require.NoError(t, err)
		rows += p.Rows
		if p.Rows == 0 {
			require.Positive(t, p.Walk)
		}
	}
	require.Equal(t, 6, rows, "it goes on where the other stood")
}
