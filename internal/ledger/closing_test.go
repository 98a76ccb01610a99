package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

func TestUnknownOutcomesAreClosedOnceTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("asked", 5)
	for _, g := range c.ask(c.worker, refs...).Grants {
		require.Equal(t, job.Unknown, c.settle(g, job.MayBeDone(job.CodeTimeout, "no answer")).State)
	}
	closed, more, err := c.CloseUnknown(t.Context(), 2)
	require.NoError(t, err)
	require.Zero(t, closed)
	require.False(t, more)

	c.exec(`UPDATE duly.job SET doubt_since = doubt_since - interval '8 days' WHERE id <> $1`, refs[4].Job)
	c.exec(`UPDATE duly.unknown SET closes_at = closes_at - interval '8 days' WHERE job <> $1`, refs[4].Job)
	closed, more, err = c.CloseUnknown(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, 3, closed)
	require.True(t, more)
	closed, more, err = c.CloseUnknown(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, 1, closed)
	require.False(t, more)
	require.Equal(t, 4, c.count(`SELECT count(*)::int FROM duly.unknown WHERE closed`), "they stay visible")
	require.Equal(t, 4, c.count(`SELECT count(*)::int FROM duly.event WHERE name = 'close'`))
	require.True(t, c.row(refs[0].Job).Closed)
	require.False(t, c.row(refs[4].Job).Closed)
}
