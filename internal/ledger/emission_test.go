package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/pkg/job"
)

// A message of an earlier emission may be late by any time: what it names is ready again,
// and was announced by another message since.
func TestG6ReferenceOfAnOlderEmissionLeasesNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	older := c.enqueue("emitted", 1)[0]
	c.settle(c.ask(c.worker, older).Grants[0], job.NotBegun(""))
	state, _, fence := c.state(older.Job)
	require.Equal(t, job.Ready, state, "a job that is handed back is ready at once")

	leases := c.ask(c.register(), older)
	require.Empty(t, leases.Grants)
	require.Len(t, leases.Stale, 1)
	state, _, after := c.state(older.Job)
	require.Equal(t, job.Ready, state)
	require.Equal(t, fence, after, "a stale reference raises no fence")

	newer := older
	newer.Emission++
	require.Len(t, c.ask(c.worker, newer).Grants, 1)
}
