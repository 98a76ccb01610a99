package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

func (c *crew) beat(w machine.Worker) machine.Beat {
	c.t.Helper()
	beats, err := c.Beats(c.t.Context())
	require.NoError(c.t, err)
	for _, b := range beats {
		if b.Worker == w.ID {
			return b
		}
	}
	require.Fail(c.t, "the worker has ended")
	return machine.Beat{}
}

// endLeases ends the leases of an ended worker until a whole pass finds none.
func (c *crew) endLeases(w machine.Worker, limit int) machine.Tally {
	c.t.Helper()
	all := machine.Tally{}
	for clean := false; !clean; {
		clean = true
		var from time.Time
		for more := true; more; {
			s, err := c.EndLeasesOf(c.t.Context(), w.ID, from, limit)
			require.NoError(c.t, err)
			for e, n := range s.Ended {
				all[e] += n
				clean = false
			}
			from, more = s.Next, s.More
		}
	}
	return all
}

func TestWorkerIsEndedOnlyAtTheHeartbeatThatWasSeen(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	seen := c.beat(c.worker)
	require.Equal(t, 30*time.Second, seen.LeaseTime)
	_, err := c.Heartbeat(t.Context(), c.worker.ID)
	require.NoError(t, err)
	ended, err := c.EndDead(t.Context(), c.worker.ID, seen.Count)
	require.NoError(t, err)
	require.False(t, ended, "it was heard of in the last instant")

	ended, err = c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)
	require.True(t, ended)
	ended, err = c.EndDead(t.Context(), c.worker.ID, seen.Count+1)
	require.NoError(t, err)
	require.False(t, ended, "it is ended once")
	_, err = c.Heartbeat(t.Context(), c.worker.ID)
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
	_, err = c.Lease(t.Context(), machine.LeaseRequest{Worker: c.worker, Kind: c.kind, Refs: c.enqueue("a", 1)})
	require.ErrorIs(t, err, machine.ErrWorkerEnded)
}

// G5, C38: what a dead worker held ends as unknown, at once; what it had finished stays.
func TestC38LeasesOfADeadWorkerEndAsUnknown(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("held", 7)
	grants := c.ask(c.worker, refs[:3]...).Grants
	grants = append(grants, c.ask(c.worker, refs[3:6]...).Grants...)
	c.settle(grants[0], job.Done(nil))
	other := c.register()
	require.Len(t, c.ask(other, refs[6]).Grants, 1)
	_, err := c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)

	undrained, err := c.Undrained(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{c.worker.ID}, undrained)
	require.Equal(t, machine.Tally{{State: job.Unknown}: 5}, c.endLeases(c.worker, 1))
	require.Equal(t, 5, c.count(`SELECT count(*)::int FROM duly.unknown WHERE NOT closed`))
	require.Equal(t, 5, c.count(`SELECT count(*)::int FROM duly.event WHERE name = 'lease_ended' AND outcome = 'unknown' AND worker = $1`, c.worker.ID))
	require.Equal(t, job.Delivered, c.row(refs[0].Job).State)
	require.Equal(t, job.Leased, c.row(refs[6].Job).State, "another's lease is not touched")

	require.NoError(t, c.Drained(t.Context(), c.worker.ID))
	undrained, err = c.Undrained(t.Context())
	require.NoError(t, err)
	require.Empty(t, undrained)
}

// A lease whose commit was on its way when the worker's row ended is found by a later
// pass.
func TestLeaseThatSlippedInIsEndedByALaterPass(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ref := c.enqueue("slipped", 1)[0]
	_, err := c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)
	require.Empty(t, c.endLeases(c.worker, 100))
	c.exec(`UPDATE duly.worker SET ended_at = NULL`) // as the lost statement saw it
	require.Len(t, c.ask(c.worker, ref).Grants, 1)
	c.exec(`UPDATE duly.worker SET ended_at = clock_timestamp()`)
	require.Equal(t, machine.Tally{{State: job.Unknown}: 1}, c.endLeases(c.worker, 100))
}

// C35: a job that was settled, or leased again, between the look and the end of the
// lease is not touched, nor one that is being settled.
func TestC35SweepNeverOverwritesWhatCameBetween(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("between", 3)
	grants := c.ask(c.worker, refs...).Grants
	_, err := c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)

	tx, err := c.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE duly.job SET state = 'delivered', ended_at = now() WHERE id = $1`, refs[0].Job)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE duly.job SET fence = fence + 1 WHERE id = $1`, refs[1].Job)
	require.NoError(t, err)
	s, err := c.EndLeasesOf(t.Context(), c.worker.ID, time.Time{}, 100)
	require.NoError(t, err)
	require.Equal(t, 2, s.Left, "the rows are locked: it looks again later")
	require.Equal(t, 1, s.Ended.Total())
	require.NoError(t, tx.Commit(t.Context()))

	require.Empty(t, c.endLeases(c.worker, 100))
	require.Equal(t, job.Delivered, c.row(refs[0].Job).State)
	require.Equal(t, grants[1].Row.Fence+1, c.row(refs[1].Job).Fence)
	require.Equal(t, job.Leased, c.row(refs[1].Job).State)
}

// C39: no instant that a worker or a clock has written decides who lives.
func TestC39NoClockDecidesWhoIsDead(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	for _, off := range []time.Duration{3 * time.Minute, -10 * time.Minute, -24 * time.Hour} {
		w := c.register()
		seen := c.beat(w)
		_, err := c.Heartbeat(t.Context(), w.ID)
		require.NoError(t, err)
		c.exec(`UPDATE duly.worker SET seen_at = seen_at + $2::interval, started_at = started_at + $2::interval WHERE id = $1`, w.ID, off)
		ended, err := c.EndDead(t.Context(), w.ID, seen.Count)
		require.NoError(t, err)
		require.False(t, ended, "it has beaten, whatever its row says when")
		require.Equal(t, seen.Count+1, c.beat(w).Count)
	}
}

func TestDeadWorkersAreFoundWithoutReadingTheLedger(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.ask(c.worker, c.enqueue("plan", 200)...)
	c.exec(`ANALYZE duly.job`)
	for statement, args := range map[string][]any{
		"leases_of":     {c.worker.ID, nil, time.Minute, 100},
		"leases_over":   {time.Unix(0, 0), time.Minute, 100},
		"figures_lease": {100},
	} {
		plan := c.plan("seek", statement, args...)
		require.Contains(t, plan, "using job_pkey", statement)
		require.NotContains(t, plan, "Seq Scan on job", statement)
		require.NotContains(t, plan, "Seq Scan on lease", statement)
	}
}
