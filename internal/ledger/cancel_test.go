package ledger_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func cancelOf(key string) machine.Cancellation {
	return machine.Cancellation{Kind: kind, Key: key, Actor: "bob", Reason: "customer left"}
}

func TestCancelEndsWhatWaitsAndAsksWhatRuns(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.enqueue("waits", 1)
	s, err := c.Cancel(t.Context(), cancelOf("waits-0"))
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, s.State)
	require.False(t, s.Requested)
	s, err = c.Cancel(t.Context(), cancelOf("waits-0"))
	require.NoError(t, err)
	require.True(t, s.Again, "cancelling again changes nothing")

	g := c.ask(c.worker, c.enqueue("runs", 1)...).Grants[0]
	s, err = c.Cancel(t.Context(), cancelOf("runs-0"))
	require.NoError(t, err)
	require.Equal(t, job.Leased, s.State)
	require.True(t, s.Requested)
	require.Equal(t, job.Cancelled, c.settle(g, job.NotDone(job.ClassTransient, job.CodeUnreachable, "")).State)

	c.ended("done", job.Done(nil))
	require.Equal(t, machine.AlreadyDelivered, denied(t, second(c.Cancel(t.Context(), cancelOf("done-0")))).Why)
	require.ErrorIs(t, second(c.Cancel(t.Context(), cancelOf("nobody"))), job.ErrNotFound)
}

func TestCancelIsPartOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("tx", 1)[0]
	tx, err := c.pool.BeginTx(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	s, err := c.CancelIn(t.Context(), tx, cancelOf("tx-0"))
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, s.State)
	require.NoError(t, tx.Rollback(t.Context()))
	state, _, _ := c.state(ref.Job)
	require.Equal(t, job.Ready, state)
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.event WHERE job = $1`, ref.Job))
}

func TestG1TheRowItselfExcludesLeaseAndCancel(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("race", 60)
	grants := make([][]machine.Grant, len(refs))
	standings := make([]machine.Standing, len(refs))
	var all sync.WaitGroup
	begin := make(chan struct{})
	errs := make(chan error, 2*len(refs))
	for i, ref := range refs {
		key := c.key(ref)
		all.Go(func() {
			<-begin
			leases, err := c.Lease(t.Context(), machine.LeaseRequest{Worker: c.worker, Kind: c.kind, Refs: []job.Ref{ref}})
			grants[i] = leases.Grants
			errs <- err
		})
		all.Go(func() {
			<-begin
			var err error
			standings[i], err = c.Cancel(t.Context(), cancelOf(key))
			errs <- err
		})
	}
	close(begin)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	for i, ref := range refs {
		state, _, _ := c.state(ref.Job)
		if len(grants[i]) == 1 {
			require.Equal(t, job.Leased, state, "what was leased is not cancelled")
			require.True(t, standings[i].Requested || standings[i].State == job.Leased, "the cancellation saw the lease")
		} else {
			require.Equal(t, job.Cancelled, state, "what was cancelled is not leased")
		}
	}
}

// key reads the key of a reference's job.
func (c *crew) key(ref job.Ref) (key string) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT key FROM duly.job WHERE id = $1`, ref.Job).Scan(&key))
	return key
}
