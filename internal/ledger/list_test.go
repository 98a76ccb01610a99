package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// listed pages through a list and returns the keys in its order.
func (c *crew) listed(req machine.ListRequest) []string {
	c.t.Helper()
	var keys []string
	for {
		page, err := c.List(c.t.Context(), req)
		require.NoError(c.t, err)
		for _, e := range page.Entries {
			keys = append(keys, e.Key)
		}
		if page.Next == (machine.ListPlace{}) {
			return keys
		}
		req.After = page.Next
	}
}

func TestListsPageThroughWhatNeedsAPersonNewestFirst(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	for i := range 5 {
		c.poison(fmt.Sprintf("q%d", i))
	}
	c.ended("u", job.MayBeDone(job.CodeTimeout, "no answer"))
	c.ended("rejected", job.NotDone(job.ClassPermanent, job.CodeRejected, "no"))
	c.ended("fine", job.Done(nil))
	c.exec(`UPDATE duly.quarantine SET at = date_trunc('day', at) - interval '2 days' WHERE job IN (SELECT id FROM duly.job WHERE key LIKE 'q%')`) // equal instants

	all := []string{"rejected-0", "u-0", "q4-0", "q3-0", "q2-0", "q1-0", "q0-0"}
	require.Equal(t, all, c.listed(machine.ListRequest{}))
	require.Equal(t, all, c.listed(machine.ListRequest{Limit: 2}), "pages neither skip nor repeat")
	require.Equal(t, []string{"u-0"}, c.listed(machine.ListRequest{State: job.Unknown}))
	require.Equal(t, all[:1], c.listed(machine.ListRequest{Code: job.CodeRejected, Kind: kind}))
	require.Equal(t, all[:1], c.listed(machine.ListRequest{Reason: job.ReasonPermanent, Limit: 1, Code: job.CodeRejected}))

	require.Equal(t, all[:2], c.listed(machine.ListRequest{Since: time.Now().Add(-time.Hour)}))

	page, err := c.List(t.Context(), machine.ListRequest{State: job.Unknown})
	require.NoError(t, err)
	e := page.Entries[0]
	require.Equal(t, job.CodeTimeout, e.Code)
	require.EqualValues(t, 1, e.Fence)
	require.False(t, e.ClosesAt.IsZero())

	_, err = c.List(t.Context(), machine.ListRequest{Kind: "nobody"})
	require.ErrorIs(t, err, job.ErrRefused)
}

func TestListsOfOtherStatesShowCurrentGenerationsOnly(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	c.poison("old")
	c.redrive(redriveOf("old", "k", 1))
	c.enqueue("new", 3)
	require.ElementsMatch(t, []string{"new-2", "new-1", "new-0", "old-0"}, c.listed(machine.ListRequest{State: job.Ready, Limit: 2}))
	c.schedule("later", 1, time.Now().Add(time.Hour))
	page, err := c.List(t.Context(), machine.ListRequest{State: job.Scheduled})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Equal(t, job.WaitingDue, page.Entries[0].Waiting)
	require.False(t, page.Entries[0].WakeAt.IsZero())
	require.Equal(t, 6, page.Looked)
	require.Empty(t, c.listed(machine.ListRequest{State: job.Cancelled}))
	_, err = c.List(t.Context(), machine.ListRequest{State: job.Ready, Reason: job.ReasonTooOld})
	require.ErrorContains(t, err, "only what is quarantined or unknown")
}
