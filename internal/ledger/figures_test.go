package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// C41: what runs, and what nobody has decided about, is never old without anybody seeing
// it.
func TestC41FiguresTellTheOldestOfEverything(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("figures", 6)
	grants := c.ask(c.worker, refs[:4]...).Grants
	c.settle(grants[0], job.Done(nil))
	c.settle(grants[1], job.MayBeDone(job.CodeTimeout, "x"))
	c.settle(grants[2], job.NotDone(job.ClassPermanent, job.CodeRejected, "x"))
	c.exec(`UPDATE duly.lease SET at = at - interval '20 s'`)
	c.exec(`INSERT INTO duly.event (at, job, fence, generation, attempt, emission, name, from_state, to_state)
	        VALUES ('2020-05-01 10:00Z', 1, 1, 1, 1, 1, 'done', 'leased', 'delivered')`)
	c.exec(`UPDATE duly.unknown SET at = at - interval '1 h'`)
	f, err := c.Figures(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, f.UnknownOpen)
	require.Equal(t, 1, f.Quarantined)
	require.Equal(t, 1, f.Workers)
	require.GreaterOrEqual(t, f.OldestUnknown, time.Hour)
	require.GreaterOrEqual(t, f.OldestLease, 20*time.Second)
	require.Positive(t, f.Strays)
	require.Zero(t, f.OldestDue)
	c.settle(grants[3], job.Done(nil))
	f, err = c.Figures(t.Context(), 100)
	require.NoError(t, err)
	require.Zero(t, f.OldestLease)
}
