package ledger_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// age makes every lease, and its row, older by d.
func (c *crew) age(d time.Duration) {
	c.t.Helper()
	c.exec(`UPDATE duly.lease SET at = at - $1::interval, ends_at = ends_at - $1::interval`, d)
	c.exec(`UPDATE duly.job SET leased_at = leased_at - $1::interval WHERE leased_at IS NOT NULL`, d)
}

func TestLeaseEndsOnceItsLimitAndLeaseTimeAreOver(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("over", 4)
	grants := c.ask(c.worker, refs...).Grants
	c.settle(grants[3], job.Done(nil))
	sweep := func() machine.LeaseSweep {
		s, err := c.EndOverrun(t.Context(), 10)
		require.NoError(t, err)
		return s
	}
	require.Empty(t, sweep().Ended)
	c.age(35 * time.Second)
	require.Empty(t, sweep().Ended, "the limit is over, the lease time is not")
	c.age(15 * time.Second)
	require.Equal(t, machine.Tally{{State: job.Unknown}: 3}, sweep().Ended)
	require.Empty(t, sweep().Ended, "each lease row is looked at once")
	require.Equal(t, 1, c.count(`SELECT count(*)::int FROM duly.worker WHERE ended_at IS NULL`), "its worker lives on")
	late := c.settle(grants[0], job.Done(&job.Receipt{ID: "r"}))
	require.Equal(t, job.Delivered, late.State, "what it reports late is the best news")
}

func TestC41OverrunLeasesAreEndedPageByPageByWhoeverComes(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("pages", 60)
	for part := range slices.Chunk(refs, 3) {
		c.ask(c.worker, part...)
	}
	c.age(time.Hour)
	var (
		all sync.WaitGroup
		mu  sync.Mutex
		sum int
	)
	for range 3 {
		one := c.another()
		all.Go(func() {
			for more := true; more; {
				s, err := one.EndOverrun(t.Context(), 4)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				sum += s.Ended.Total()
				mu.Unlock()
				more = s.More
			}
		})
	}
	all.Wait()
	for more := true; more; {
		s, err := c.EndOverrun(t.Context(), 4)
		require.NoError(t, err)
		sum, more = sum+s.Ended.Total(), s.More
	}
	require.Equal(t, len(refs), sum)
	require.Equal(t, len(refs), c.count(`SELECT count(*)::int FROM duly.event WHERE name = 'lease_ended'`))
}

// Whether the jobs of a lease row have ids in a row, with gaps, or far from one another: what
// is ended are its leases that run, and none of another that lies between.
func TestLeasesAreEndedWhereverTheirJobsLie(t *testing.T) {
	t.Parallel()
	for name, mine := range map[string]func(i int) bool{
		"in a row":  func(int) bool { return true },
		"with gaps": func(i int) bool { return i%3 != 0 },
		"scattered": func(i int) bool { return i%7 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t)
			other := c.register()
			var ours, theirs []job.Ref
			for i, r := range c.enqueue("job", 100) {
				if mine(i) {
					ours = append(ours, r)
				} else {
					theirs = append(theirs, r)
				}
			}
			grants := c.ask(c.worker, ours...).Grants
			c.settle(grants[0], job.Done(nil))
			c.age(time.Hour) // those of the other are young
			c.ask(other, theirs...)
			over, err := c.EndOverrun(t.Context(), 10)
			require.NoError(t, err)
			require.Equal(t, len(ours)-1, over.Ended.Total())
			_, err = c.EndDead(t.Context(), other.ID, c.beat(other).Count)
			require.NoError(t, err)
			dead, err := c.EndLeasesOf(t.Context(), other.ID, time.Time{}, 10)
			require.NoError(t, err)
			require.Equal(t, len(theirs), dead.Ended.Total())
		})
	}
}

// C67: workers and a sweep that update the same thousand rows in whatever order wait for
// one another without a deadlock that anybody sees.
func TestC67WorkersAndSweepsShareRowsWithoutDeadlock(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("shared", 1000)
	var grants []machine.Grant
	for part := range slices.Chunk(refs, 100) {
		grants = append(grants, c.ask(c.worker, part...).Grants...)
	}
	require.Len(t, grants, 1000)
	_, err := c.EndDead(t.Context(), c.worker.ID, c.beat(c.worker).Count)
	require.NoError(t, err)
	reports := make([]machine.Report, len(grants))
	for i, g := range grants {
		reports[i] = report(g, job.NotDone(job.ClassTransient, job.CodeUnreachable, "x"))
		if i%2 == 0 {
			reports[i] = report(g, job.Done(nil))
		}
	}
	var all sync.WaitGroup
	settle := func(reports []machine.Report) {
		one := c.another()
		for part := range slices.Chunk(reports, 250) {
			if _, err := one.Settle(context.WithoutCancel(t.Context()), c.worker, part); err != nil {
				t.Error(err)
			}
		}
	}
	backward := slices.Clone(reports)
	slices.Reverse(backward)
	all.Go(func() { settle(reports) })
	all.Go(func() { settle(backward) })
	all.Go(func() {
		one := &crew{bench: c.another(), kind: c.kind}
		for range 3 {
			one.endLeases(c.worker, 3)
		}
	})
	all.Wait()
	c.endLeases(c.worker, 100)
	require.Zero(t, c.count(`SELECT count(*)::int FROM duly.job WHERE state = 'leased'`))
	require.Equal(t, 500, c.count(`SELECT count(*)::int FROM duly.job WHERE state = 'delivered'`), "a success counts, in time or late")
	require.Equal(t, 500, c.count(`SELECT count(*)::int FROM duly.job WHERE state IN ('scheduled', 'unknown')`))
}
