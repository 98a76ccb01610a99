package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"duly.dev/duly/internal/machine"
	"duly.dev/duly/pkg/job"
)

// A batch is found whether its ids are in a row or scattered, and nothing that lies
// between them is touched.
func TestLeasesOfABatchAreThoseAskedForHoweverItsIDsLie(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	refs := c.enqueue("spread", 100)
	for name, picked := range map[string][]job.Ref{
		"in a row":         refs[0:10],
		"every second":     {refs[10], refs[12], refs[14], refs[16]},
		"scattered":        {refs[20], refs[60], refs[99]},
		"one":              {refs[30]},
		"the ends, twice":  {refs[40], refs[40], refs[49], refs[49]},
		"in another order": {refs[53], refs[51], refs[52]},
	} {
		var want, got []int64
		seen := make(map[int64]bool)
		for _, r := range picked {
			if !seen[r.Job] {
				want = append(want, r.Job)
			}
			seen[r.Job] = true
		}
		for _, g := range c.ask(c.worker, picked...).Grants {
			got = append(got, g.Row.Job)
		}
		require.ElementsMatch(t, want, got, name)
	}
	require.Equal(t, 100-(10+4+3+1+2+3), c.count(`SELECT count(*)::int FROM duly.job WHERE state = 'ready'`))
	leases, err := c.Lease(t.Context(), machine.LeaseRequest{Worker: c.worker, Kind: c.kind})
	require.NoError(t, err)
	require.Empty(t, leases.Grants)
}
